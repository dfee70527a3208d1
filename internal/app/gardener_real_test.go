//go:build gardener

package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/devserver/kubetest"
	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/registration/registrationtest"
	reportingapi "github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// landscape is a real Gardener, a real engine, the reference server, and an App
// between them.
type landscape struct {
	gardenertest.Cluster
	*running
	reporting *registrationtest.Reporting
	started   time.Time
}

func newLandscape(t *testing.T) *landscape {
	t.Helper()
	k := kubetest.Start(t, kubetest.Options{Kind: kubetest.Gardener})
	c, err := gardener.NewClient(k.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	l := &landscape{Cluster: gardenertest.Cluster{Client: c}, reporting: registrationtest.NewReporting(t), started: time.Now().UTC().Truncate(time.Second)}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.running = run(t, devservertest.Start(t), dir, strings.Replace(configText(t, "one"), "secrets: {", fmt.Sprintf("secrets: {kube: {file: %q}, ", k.Kubeconfig), 1)+fmt.Sprintf(`sinks:
  - {name: billing, type: reporting, url: %q}
sources:
  - name: garden
    type: gardener
    account: landscape
    sink: billing
    interval: 1s
    inventory: {interval: 5s, confirmAfter: 2s}
    gardener: {kubeconfig: kube, wait: 500ms}
    registration: {createdBy: gardener-controller, openstack: {tenant: name}}
`, l.reporting.URL))
	return l
}

// tick waits for the next second: Kubernetes cuts times to seconds.
func (l *landscape) tick() {
	now := time.Now().Unix()
	eventually(l.t, "the next second", func() bool { return time.Now().Unix() > now })
}

func (l *landscape) secret(tenant string) {
	l.t.Helper()
	if err := l.WriteSecret(l.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-of-tenants", Name: "cloud"},
		StringData: credentials(tenant)}); err != nil {
		l.t.Fatal(err)
	}
}

func credentials(tenant string) map[string]string {
	return map[string]string{"domainName": "Default", "tenantName": tenant, "username": "u", "password": "sentinel-7f3a"}
}

// events are those of a shoot, by time.
func (l *landscape) events(uid string) (all []event.Event) {
	l.t.Helper()
	if err := l.reporting.Events(l.t.Context(), reportingapi.ListEventsParams{ResourceID: &uid}, func(e reportingapi.StoredEvent) bool {
		all = append(all, e.Event)
		return true
	}); err != nil {
		l.t.Fatal(err)
	}
	return all
}

func (l *landscape) wantEvents(uid string, types ...event.Type) map[event.Type]time.Time {
	l.t.Helper()
	eventually(l.t, fmt.Sprint("events ", types), func() bool { return len(l.events(uid)) >= len(types) })
	at := map[event.Type]time.Time{}
	var got []event.Type
	for _, e := range l.events(uid) {
		got, at[e.Type] = append(got, e.Type), e.Time
	}
	if diff := cmp.Diff(got, types); diff != "" {
		l.t.Errorf("events (-got +want):\n%s", diff)
	}
	return at
}

func (l *landscape) registration(name, uid string) (s api.ShootRegistration) {
	v, err := l.app.Connection().Client.QueryWorkflow(l.t.Context(), workflows.ShootID("dev", name, uid), "", workflows.QueryStatus)
	if err == nil {
		err = v.Get(&s)
	}
	if err != nil {
		return api.ShootRegistration{}
	}
	return s
}

// A shoot is created, scaled, given other machines, put to sleep, woken and
// deleted, and shares its tenant with another one whose credentials have an
// old-style binding. The Reporting API ends with exactly the events, projects,
// relations and usage that follow from that.
func TestShootsFromTheAPIServerToTheBill(t *testing.T) {
	t.Parallel()
	l := newLandscape(t)
	l.Project(t, "tenants", "garden-of-tenants", nil)
	l.Project(t, "dev", "garden-anything", nil)
	l.Credentials(t, "garden-anything", "cloud", "garden-of-tenants", credentials("tenant-a"))
	l.SecretBinding(t, "garden-anything", "old", "garden-of-tenants", "cloud")
	pool := func(typ string, n int32) gardenertest.Pool {
		return gardenertest.Pool{Name: "a", Type: typ, Minimum: n}
	}
	cloud := "cloud"
	web, db := gardenertest.Shoot("garden-anything", "web", pool("m1.large", 2)), gardenertest.Shoot("garden-anything", "db", pool("m1.large", 1))
	web.Spec.CredentialsBindingName = &cloud
	web, db = l.Created(t, web), l.Created(t, gardenertest.BindOld(db, "old"))
	for _, s := range []*corev1beta1.Shoot{web, db} {
		eventually(t, s.Name+" is registered", func() bool {
			return l.registration(s.Name, string(s.UID)).Status.Phase == api.ShootRegistered
		})
	}
	l.tick()
	l.Pools(t, web, pool("m1.large", 3))
	l.tick()
	l.Hibernate(t, web, true)
	l.tick()
	l.Reconciled(t, web)
	l.tick()
	l.Hibernate(t, web, false)
	l.Reconciled(t, web)
	l.tick()
	l.Pools(t, web, pool("m1.xlarge", 3))
	l.tick()
	l.Deleted(t, web)
	at := l.wantEvents(string(web.UID), event.ShootCreate, event.ShootWorkerScale, event.ShootHibernateStart, event.ShootHibernateEnd,
		event.ShootWorkerMachineType, event.ShootDelete)
	eventually(t, "the relation of web is closed", func() bool {
		rs := l.reporting.All(t, "landscape/dev")
		return len(rs) == 2 && (!rs[0].End.IsZero() || !rs[1].End.IsZero())
	})

	// The Secret of db is of another tenant from now on: the inventory finds it.
	rotated := time.Now().UTC()
	l.secret("tenant-b")
	eventually(t, "db runs in the other tenant", func() bool {
		s := l.registration("db", string(db.UID)).Status
		return len(s.Relations) == 2 && s.Phase == api.ShootRegistered && s.Reason == ""
	})
	l.tick()
	l.Deleted(t, db)
	gone := l.wantEvents(string(db.UID), event.ShootCreate, event.ShootDelete)[event.ShootDelete]
	for _, s := range []*corev1beta1.Shoot{web, db} {
		var out api.ShootRegistration
		if err := l.app.Connection().Client.GetWorkflow(t.Context(), workflows.ShootID("dev", s.Name, string(s.UID)), "").Get(t.Context(), &out); err != nil || out.Status.Phase != api.ShootEnded {
			t.Errorf("%s: %+v, %v", s.Name, out.Status, err)
		}
	}

	projects, err := l.reporting.Projects(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var accounts []string
	for _, p := range projects {
		accounts = append(accounts, p.Platform+" "+p.ExternalID)
	}
	if diff := cmp.Diff(accounts, []string{"gardener landscape/dev", "openstack Default/tenant-a", "openstack Default/tenant-b"}); diff != "" {
		t.Errorf("projects (-got +want):\n%s", diff)
	}
	l.wantBillOf(projects[0].ID, at, gone)
	l.wantAttribution(web, db, at[event.ShootDelete], rotated, gone)
}

// wantAttribution wants one relation for web, and two for db that meet where the
// rotation was noticed.
func (l *landscape) wantAttribution(web, db *corev1beta1.Shoot, webGone, rotated, dbGone time.Time) {
	l.t.Helper()
	all := l.reporting.All(l.t, "landscape/dev")
	var noticed time.Time
	for _, r := range all {
		if r.Shoot == "db" && r.To == "openstack:Default/tenant-b" {
			noticed = r.Begin
		}
	}
	if noticed.Before(rotated) || noticed.After(dbGone) {
		l.t.Errorf("the rotation at %s was noticed at %s", rotated, noticed)
	}
	relation := func(tenant, shoot string, begin, end time.Time) registrationtest.Relation {
		return registrationtest.Relation{From: "gardener:landscape/dev", To: "openstack:Default/" + tenant, Shoot: shoot, CreatedBy: "gardener-controller", Begin: begin.UTC(), End: end}
	}
	want := []registrationtest.Relation{
		relation("tenant-a", "web", web.CreationTimestamp.Time, webGone), relation("tenant-a", "db", db.CreationTimestamp.Time, noticed),
		relation("tenant-b", "db", noticed, dbGone),
	}
	if len(all) > 1 && all[0].Shoot == "db" { // both began at the same time
		all[0], all[1] = all[1], all[0]
	}
	if diff := cmp.Diff(all, want); diff != "" {
		l.t.Errorf("relations (-got +want):\n%s", diff)
	}
}

// wantBillOf wants the usage of the project to be what the times of web, and those
// of db, which had one worker all its life, amount to.
func (l *landscape) wantBillOf(projectID string, at map[event.Type]time.Time, dbGone time.Time) {
	l.t.Helper()
	create, scale, sleep, wake, machines, gone := at[event.ShootCreate], at[event.ShootWorkerScale], at[event.ShootHibernateStart],
		at[event.ShootHibernateEnd], at[event.ShootWorkerMachineType], at[event.ShootDelete]
	for i, pair := range [][2]time.Time{{create, scale}, {scale, sleep}, {sleep, wake}, {wake, machines}, {machines, gone}} {
		if !pair[0].Before(pair[1]) {
			l.t.Fatalf("step %d takes no time: %v", i, at)
		}
	}
	seconds := func(from, to time.Time) int64 { return int64(to.Sub(from) / time.Second) }
	var dbCreated time.Time
	kind, verb := string(event.Shoot), string(event.ShootCreate)
	if err := l.reporting.Events(l.t.Context(), reportingapi.ListEventsParams{ProjectID: &projectID, ResourceType: &kind, Type: &verb}, func(e reportingapi.StoredEvent) bool {
		if e.Event.Data.Resource.Name == "db" {
			dbCreated = e.Event.Time
		}
		return true
	}); err != nil {
		l.t.Fatal(err)
	}
	db := seconds(dbCreated, dbGone)
	large := seconds(create, sleep) + seconds(wake, machines)
	want := map[string]string{
		"active m1.large":     fmt.Sprintf("%d s, %d worker-seconds", large+db, 2*seconds(create, scale)+3*seconds(scale, sleep)+3*seconds(wake, machines)+db),
		"hibernated m1.large": fmt.Sprintf("%d s, %d worker-seconds", seconds(sleep, wake), 3*seconds(sleep, wake)),
		"active m1.xlarge":    fmt.Sprintf("%d s, %d worker-seconds", seconds(machines, gone), 3*seconds(machines, gone)),
	}
	u, err := l.reporting.Usage(l.t.Context(), projectID, l.started, l.started.Add(24*time.Hour), time.Time{})
	if err != nil {
		l.t.Fatal(err)
	}
	got := map[string]string{}
	for _, g := range u.Totals {
		got[string(g.State)+" "+g.Words[event.PoolMachineType("a")].String()] = fmt.Sprintf("%v s, %v worker-seconds", g.Seconds, g.Amounts[event.WorkerCount])
	}
	if diff := cmp.Diff(got, want); diff != "" {
		l.t.Errorf("usage (-got +want):\n%s", diff)
	}
	if len(u.FindingCounts) > 0 || u.ResourceCount != 2 {
		l.t.Errorf("findings %v, %d resources", u.FindingCounts, u.ResourceCount)
	}
}
