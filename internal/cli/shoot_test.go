package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// withShoots has a shoot that is registered, one that nobody can resolve, two of
// one name, and one that is over.
func withShoots() *fakeTemporal {
	f := newFake()
	at := func(d time.Duration) time.Time { return testNow.Add(-d) }
	openstack := api.Tenant{Platform: "openstack", ExternalID: "1a2b", Name: "Default/web"}
	web := api.ShootRegistration{APIVersion: api.APIVersion, Kind: api.KindShootRegistration,
		Metadata: api.Metadata{Namespace: "dev", Name: "web", UID: "6b1f", CreationTimestamp: at(48 * time.Hour)},
		Spec:     api.ShootFacts{Source: "garden", Project: "dev", Name: "web", UID: "6b1f", CreatedAt: at(49 * time.Hour), Infrastructure: "openstack"},
		Status: api.ShootStatus{Phase: api.ShootRegistered, Since: at(47 * time.Hour), Tenant: &openstack, ResolvedBy: api.ResolvedByKeystone, ProjectID: "p-1",
			Relations: []api.ShootRelation{
				{Tenant: api.Tenant{Platform: "openstack", ExternalID: "0000"}, ValidFrom: at(49 * time.Hour), ValidTo: at(24 * time.Hour), ID: "r-1", Closed: true},
				{Tenant: openstack, ValidFrom: at(24 * time.Hour), ID: "r-2"}}}}
	db := web
	db.Metadata.Name, db.Spec.Name, db.Metadata.UID, db.Spec.UID = "db", "db", "77aa", "77aa"
	db.Status = api.ShootStatus{Phase: api.ShootUnresolved, Reason: api.ReasonNotMapped, Since: at(time.Hour),
		Message: "a token of Hetzner Cloud does not tell which project it is of: name it in registration.tenants of source garden", End: &api.ShootEnd{At: at(time.Minute), Concluded: true}}
	add := func(v api.ShootRegistration, uid string) *fakeRun {
		v.Metadata.UID, v.Spec.UID = uid, uid
		r := running(workflows.TypeShootRegistration, v)
		r.attributes = map[string]string{workflows.AttrPhase.GetName(): string(v.Status.Phase), workflows.AttrReason.GetName(): v.Status.Reason, workflows.AttrSource.GetName(): "garden"}
		if v.Status.Tenant != nil {
			r.attributes[workflows.AttrTenant.GetName()] = v.Status.Tenant.String()
		}
		for _, name := range []string{workflows.UpdateShootRegister, workflows.UpdateShootEnd, workflows.UpdateShootRetry} {
			r.updates[name] = func(context.Context, []byte) (any, error) { return v, nil }
		}
		f.runs[workflows.ShootID(v.Metadata.Namespace, v.Metadata.Name, uid)] = r
		return r
	}
	add(web, "6b1f")
	add(db, "77aa")
	twin := db
	twin.Metadata.Name, twin.Spec.Name = "twin", "twin"
	add(twin, "1")
	add(twin, "2")
	over := web
	over.Metadata.Name, over.Spec.Name = "old", "old"
	over.Status.Phase, over.Status.End = api.ShootEnded, &api.ShootEnd{At: at(2 * time.Hour)}
	r := add(over, "9")
	over.Metadata.UID, over.Spec.UID = "9", "9"
	r.status, r.result = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, over
	return f
}

func TestShootOutput(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"shoot-list":          "shoot list",
		"shoot-list-wide":     "shoot list dev -o wide",
		"shoot-list-yaml":     "shoot list -o yaml",
		"shoot-get":           "shoot get dev/web dev/db",
		"shoot-get-json":      "shoot get dev/web -o json",
		"shoot-get-over":      "shoot get dev/old/9",
		"shoot-missing":       "shoot get dev/nobody",
		"shoot-twin":          "shoot get dev/twin",
		"shoot-not-a-name":    "shoot get web",
		"shoot-retry":         "shoot retry dev/web dev/twin/2",
		"shoot-register":      "shoot register dev/db --uid 77aa --tenant hetzner:acme",
		"shoot-register-new":  "shoot register dev/new --uid 5 --source garden",
		"shoot-register-over": "shoot register dev/old --uid 9 --source garden",
		"shoot-register-wait": "shoot register dev/web --uid 6b1f --wait",
		"shoot-register-stay": "shoot register dev/db --uid 77aa --wait",
		"shoot-no-uid":        "shoot register dev/new --source garden",
		"shoot-no-source":     "shoot register dev/new --uid 5",
		"shoot-no-tenant":     "shoot register dev/new --uid 5 --tenant acme",
		"shoot-deregister":    "shoot deregister dev/web --at 10m",
		"shoot-no-time":       "shoot deregister dev/web",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newCLI(t, withShoots()).golden(name, strings.Fields(args)...)
		})
	}
}

// What is typed reaches the workflow, and the list.
func TestShootArguments(t *testing.T) {
	t.Parallel()
	f := withShoots()
	got := map[string]string{}
	for _, name := range []string{workflows.UpdateShootRegister, workflows.UpdateShootEnd} {
		answer := f.runs["shoot/dev/web/6b1f"].updates[name]
		f.runs["shoot/dev/web/6b1f"].updates[name] = func(ctx context.Context, arg []byte) (any, error) {
			got[name] = string(arg)
			return answer(ctx, arg)
		}
	}
	c := newCLI(t, f)
	for _, args := range []string{
		"shoot register dev/web/6b1f --created 2026-01-01T00:00:00Z --tenant openstack:a:b", "shoot deregister dev/web --at 2026-01-02T00:00:00Z",
		"shoot register dev/new --uid 5 --source garden --created 2026-01-01 --infrastructure hcloud",
		"shoot list dev --phase unresolved --reason NotMapped --source garden",
	} {
		if r := c.run(strings.Fields(args)...); r.code != ExitOK {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for name, want := range map[string]string{
		workflows.UpdateShootRegister: `{"source":"","project":"dev","name":"web","uid":"6b1f","createdAt":"2026-01-01T00:00:00Z","tenant":{"platform":"openstack","externalID":"a:b"}}`,
		workflows.UpdateShootEnd:      `{"at":"2026-01-02T00:00:00Z"}`,
	} {
		if got[name] != want {
			t.Errorf("%s got %s, want %s", name, got[name], want)
		}
	}
	var in api.ShootRegistrationInput
	r := f.runs["shoot/dev/new/5"]
	if r == nil || json.Unmarshal(r.input, &in) != nil || in.Source != "garden" || in.Infrastructure != "hcloud" ||
		!in.CreatedAt.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || r.kind != workflows.TypeShootRegistration ||
		r.options.WorkflowIDReusePolicy != enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY {
		t.Errorf("started %+v with %+v", r, in)
	}
	want := "WorkflowType = 'ShootRegistration' AND ExecutionStatus = 'Running' AND TollgateNamespace = 'dev' AND TollgateSource = 'garden' AND TollgatePhase = 'Unresolved' AND TollgateReason = 'NotMapped'"
	if q := f.queries[len(f.queries)-1]; q != want {
		t.Errorf("listed %s", q)
	}
}
