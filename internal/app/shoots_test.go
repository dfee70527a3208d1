package app_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenersim"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/registration/registrationtest"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Shoots are registered as the source reports them, by the operator's map; another
// map is another tenant from then on, and the inventory finds that; the end closes
// the relation. No right beyond those of the source is needed. Metrics say how many
// are registered, and of how many nobody knows the tenant.
func TestShootsAreRegistered(t *testing.T) {
	t.Parallel()
	sim := gardenersim.New(map[string]string{"dev": "garden-x7", "ops": "garden-ops"})
	srv := httptest.NewTLSServer(sim)
	t.Cleanup(func() { sim.Close(); srv.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	c, err := gardener.NewClient(&rest.Config{Host: srv.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
	if err != nil {
		t.Fatal(err)
	}
	cluster := gardenertest.Cluster{Client: c}
	reporting := registrationtest.NewReporting(t)
	dir := t.TempDir()
	for name, content := range map[string]string{"token": "sesame\n", "kube": fmt.Sprintf(
		`{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}],
contexts: [{name: x, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}`, srv.URL, base64.StdEncoding.EncodeToString(ca))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := strings.Replace(configText(t, "one"), "secrets: {", "secrets: {kube: {file: kube}, ", 1) + fmt.Sprintf(`sinks:
  - {name: billing, type: reporting, url: %q}
sources:
  - name: garden
    type: gardener
    account: landscape
    sink: billing
    interval: 1s
    inventory: {interval: 5s, confirmAfter: 2s}
    gardener: {kubeconfig: kube, wait: 100ms}
    registration: {tenants: [{project: dev, tenant: tenant-a}]}
`, reporting.URL)
	r := run(t, devservertest.Start(t), dir, config)
	s := cluster.Created(t, gardenertest.Shoot("garden-x7", "web"))
	status := func() (v api.ShootRegistration) {
		q, err := r.app.Connection().Client.QueryWorkflow(t.Context(), workflows.ShootID("dev", "web", string(s.UID)), "", workflows.QueryStatus)
		if err == nil {
			err = q.Get(&v)
		}
		if err != nil {
			return api.ShootRegistration{}
		}
		return v
	}
	eventually(t, "web is registered", func() bool { return status().Status.Phase == api.ShootRegistered })
	cluster.Created(t, gardenertest.Shoot("garden-ops", "lost")) // which the map does not name
	scrape := func() string {
		_, text, err := fetch(http.DefaultClient, "http://"+r.app.MetricsAddr()+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	unresolved := regexp.MustCompile(`(?m)^tollgate_shoot_registrations\{phase="Unresolved",reason="[A-Z][A-Za-z]+",source="garden"\} 1$`)
	eventually(t, "both are counted", func() bool {
		text := scrape()
		return unresolved.MatchString(text) && strings.Contains(text, `tollgate_shoot_registrations{phase="Registered",reason="",source="garden"} 1`)
	})

	// It sleeps: neither the source, which is read every second, nor an inventory
	// that finds everything as it should be costs it an event.
	length := func() int64 {
		d, err := r.app.Connection().Client.DescribeWorkflow(t.Context(), workflows.ShootID("dev", "web", string(s.UID)), "")
		if err != nil {
			t.Fatal(err)
		}
		return d.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength()
	}
	inventories := func() int {
		d, err := r.app.Connection().Client.ScheduleClient().GetHandle(t.Context(), workflows.InventorySchedule("garden")).Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d.Info.NumActions - len(d.Info.RunningWorkflows)
	}
	asleep, done := length(), inventories()
	eventually(t, "two inventories", func() bool { return inventories() >= done+2 })
	if n := length(); n != asleep {
		t.Errorf("%d events of history of a registration that sleeps", n-asleep)
	}

	r.configure(strings.Replace(config, "tenant-a", "tenant-b", 1))
	eventually(t, "web runs in the other tenant", func() bool {
		v := status().Status
		return len(v.Relations) == 2 && v.Phase == api.ShootRegistered && v.Reason == ""
	})
	now := time.Now().Unix()
	eventually(t, "the next second", func() bool { return time.Now().Unix() > now })
	cluster.Deleted(t, s)
	var out api.ShootRegistration
	eventually(t, "its registration is over", func() bool {
		out = status()
		return out.Status.Phase == api.ShootEnded
	})
	moved := out.Status.Relations[1].ValidFrom
	relation := func(tenant string, begin, end time.Time) registrationtest.Relation {
		return registrationtest.Relation{From: "gardener:landscape/dev", To: "openstack:" + tenant, Shoot: "web", CreatedBy: "tollgate", Begin: begin.UTC(), End: end}
	}
	want := []registrationtest.Relation{relation("tenant-a", s.CreationTimestamp.Time, moved), relation("tenant-b", moved, out.Status.End.At)}
	if diff := cmp.Diff(reporting.All(t, "landscape/dev"), want); diff != "" {
		t.Errorf("relations (-got +want):\n%s", diff)
	}
	if !moved.After(s.CreationTimestamp.Time) || !out.Status.End.At.After(moved) {
		t.Errorf("created %s, moved %s, gone %s", s.CreationTimestamp, moved, out.Status.End.At)
	}
	r.configure(strings.Replace(config, "    registration: {tenants: [{project: dev, tenant: tenant-a}]}\n", "", 1))
	eventually(t, "nothing is counted without registrations", func() bool { return !strings.Contains(scrape(), `tollgate_shoot_`) })
}
