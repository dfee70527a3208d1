package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// starting makes proxies that go through the given states.
func starting(states ...any) *fakeTemporal {
	f := newFake()
	f.onStart = func(string, api.ProxyInput) *fakeRun { return running(workflows.TypeProxy, states...) }
	return f
}

func TestCreateStartsTheWorkflow(t *testing.T) {
	t.Parallel()
	f := starting(creating())
	c := newCLI(t, f)
	r := c.run("proxy", "create", "demo", "-n", "team-b", "--provider", "local", "--port", "8080", "-l", "team=web")
	r.expect(t, ExitOK, "")
	if r.stdout != "proxy team-b/demo: created\n" {
		t.Errorf("stdout %q", r.stdout)
	}
	run := f.runs["proxy/team-b/demo"]
	if run == nil {
		t.Fatalf("no workflow of that id: %v", f.runs)
	}
	o := run.options
	if o.TaskQueue != workflows.TaskQueue || o.WorkflowIDConflictPolicy != enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL ||
		o.WorkflowIDReusePolicy != enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE || !o.WorkflowExecutionErrorWhenAlreadyStarted {
		t.Errorf("options %+v", o)
	}
	want := temporal.NewSearchAttributes(workflows.AttrProvider.ValueSet("local"), workflows.AttrNamespace.ValueSet("team-b"), workflows.AttrPhase.ValueSet("Pending"))
	if diff := cmp.Diff(o.TypedSearchAttributes.GetUntypedValues(), want.GetUntypedValues(), cmp.Comparer(func(a, b temporal.SearchAttributeKey) bool { return a.GetName() == b.GetName() })); diff != "" {
		t.Errorf("search attributes (-got +want)\n%s", diff)
	}
	if o.StaticSummary != "egress proxy team-b/demo at local" || !strings.Contains(o.StaticDetails, "tollgate -n team-b proxy get demo") {
		t.Errorf("summary %q, details %q", o.StaticSummary, o.StaticDetails)
	}
	if got, want := string(run.input), `{"spec":{"provider":"local","port":8080},"labels":{"team":"web"}}`; got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	if !f.closed {
		t.Error("the connection stays open")
	}
}

func TestWaitShowsEachChangeOnce(t *testing.T) {
	t.Parallel()
	booting := creating()
	booting.Status.Conditions[0].Reason = api.ReasonBooting
	quota := proxyState(api.PhasePending, api.Condition{Status: api.False, Reason: "QuotaExceeded", Message: "ten servers"}, api.Condition{})
	quota.Status.NextRetry = testNow.Add(5 * time.Minute)
	c := newCLI(t, starting(serviceerror.NewUnavailable("restarting"), creating(), creating(), quota, booting, booting, serving()))
	r := c.run("proxy", "create", "demo", "-p", "local", "--wait")
	r.expect(t, ExitOK, `default/demo  +0.0s  temporal cannot be reached at 127.0.0.1:7233: restarting
default/demo  +0.0s  Provisioning  Provisioned=False Creating: proxy-a
default/demo  +0.0s  Pending  Provisioned=False QuotaExceeded: ten servers  next try at 03:09:05
default/demo  +0.0s  Provisioning  Provisioned=False Booting: proxy-a
default/demo  +0.0s  Running  Healthy=True Proven: a CONNECT went through  127.0.0.7:3128
`)
	if r.stdout != "proxy default/demo: created\nproxy default/demo: serves at 127.0.0.7:3128\n" {
		t.Errorf("stdout %q", r.stdout)
	}
}

func TestWaitOnATerminalKeepsOneLine(t *testing.T) {
	t.Parallel()
	c := newCLI(t, starting(creating(), creating(), serving()))
	c.terminal = true
	tick := testNow
	c.now = func() time.Time { tick = tick.Add(time.Second); return tick }
	r := c.run("proxy", "create", "demo", "-p", "local", "--wait", "-o", "json")
	r.expect(t, ExitOK, "proxy default/demo: created\n"+
		"\rdefault/demo  +1.0s  Provisioning  Provisioned=False Creating: proxy-a\x1b[K"+
		"\rdefault/demo  +2.0s  Provisioning  Provisioned=False Creating: proxy-a\x1b[K"+
		"\n\rdefault/demo  +3.0s  Running  Healthy=True Proven: a CONNECT went through  127.0.0.7:3128\x1b[K\n")
	var p api.Proxy
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil || p.Status.IP != "127.0.0.7" {
		t.Errorf("stdout is no document of the proxy: %v\n%s", err, r.stdout)
	}
}

func TestWaitFails(t *testing.T) {
	t.Parallel()
	permanent := proxyState(api.PhasePending, api.Condition{Status: api.False, Reason: "Unauthorized", Message: "the token is refused"}, api.Condition{})
	auth := proxyState(api.PhaseProvisioning, api.Condition{Status: api.True, Reason: api.ReasonRunning}, api.Condition{Status: api.False, Reason: "auth", Message: "407"})
	permanent.Status.Latched, auth.Status.Latched = true, true
	never := proxyState(api.PhaseReplacing, api.Condition{Status: api.False, Reason: api.ReasonCreating}, api.Condition{Reason: api.ReasonCreating})
	never.Status.LastReplacement = "NeverHealthy: timeout"
	unproven := proxyState(api.PhaseProvisioning, api.Condition{Status: api.True, Reason: api.ReasonRunning},
		api.Condition{Status: api.False, Reason: api.ReasonNeverHealthy, Message: "timeout"})
	transient := proxyState(api.PhasePending, api.Condition{Status: api.False, Reason: string(provider.Transient), Message: "503"}, api.Condition{})
	for _, tc := range []struct {
		name   string
		states []any
		args   string
		code   ExitCode
		last   string
	}{
		{"permanent", []any{creating(), permanent}, "", ExitStuck,
			"tollgate: proxy default/demo: stands still: Unauthorized: the token is refused\n" +
				"  change what the message names; tollgate proxy retry demo tries again at once\n"},
		{"wrong credentials at the proxy", []any{auth}, "", ExitStuck,
			"tollgate: proxy default/demo: stands still: auth: 407\n" +
				"  change what the message names; tollgate proxy retry demo tries again at once\n"},
		{"never healthy, seen by the replacement", []any{creating(), never}, "", ExitNeverHealthy,
			"tollgate: proxy default/demo: its instance was not proven within 10m0s: -\n" +
				"  it is tried again with a new instance; follow it with: tollgate proxy history demo\n"},
		{"never healthy, seen by the condition", []any{unproven}, "", ExitNeverHealthy,
			"tollgate: proxy default/demo: its instance was not proven within 10m0s: timeout\n" +
				"  it is tried again with a new instance; follow it with: tollgate proxy history demo\n"},
		{"deleted by somebody else", []any{creating(), proxyState(api.PhaseDeleting, api.Condition{}, api.Condition{})}, "", ExitConflict,
			"tollgate: proxy default/demo: is being deleted\n"},
		{"time over", []any{transient}, "--timeout 50ms", ExitTimeout,
			"tollgate: proxy default/demo: not ready within 50ms; it is Pending, Provisioned is False: Transient: 503\n" +
				"  it goes on by itself; look with: tollgate proxy get demo\n"},
		{"time over, namespace", []any{transient}, "--timeout 50ms -n team-b", ExitTimeout,
			"tollgate: proxy team-b/demo: not ready within 50ms; it is Pending, Provisioned is False: Transient: 503\n" +
				"  it goes on by itself; look with: tollgate proxy get -n team-b demo\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCLI(t, starting(tc.states...))
			r := c.run(append([]string{"proxy", "create", "demo", "-p", "local", "--wait"}, strings.Fields(tc.args)...)...)
			if r.code != tc.code {
				t.Errorf("exit code %d, want %d", r.code, tc.code)
			}
			if i := strings.Index(r.stderr, "tollgate: "); i < 0 || r.stderr[i:] != tc.last {
				t.Errorf("stderr\n%s\nwant at its end\n%s", r.stderr, tc.last)
			}
		})
	}
}

// A proxy that looks stuck for a moment, right after a failure that it gets over,
// is not given up.
func TestWaitIsNotFooledByAMoment(t *testing.T) {
	t.Parallel()
	conflict := proxyState(api.PhasePending, api.Condition{Status: api.False, Reason: string(provider.Conflict), Message: "taken"}, api.Condition{})
	newCLI(t, starting(conflict, conflict, creating(), conflict, serving())).run("proxy", "create", "demo", "-p", "local", "-w").
		expect(t, ExitOK, `default/demo  +0.0s  Pending  Provisioned=False Conflict: taken
default/demo  +0.0s  Provisioning  Provisioned=False Creating: proxy-a
default/demo  +0.0s  Pending  Provisioned=False Conflict: taken
default/demo  +0.0s  Running  Healthy=True Proven: a CONNECT went through  127.0.0.7:3128
`)
}

func TestInterruptLeavesTheProxyAlone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := newFake()
	f.onStart = func(string, api.ProxyInput) *fakeRun { return running(workflows.TypeProxy, creating()) }
	c := newCLI(t, f)
	c.now = func() time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r := f.runs["proxy/default/demo"]; r != nil {
			cancel()
		}
		return testNow
	}
	r := c.runContext(ctx, "proxy", "create", "demo", "-p", "local", "--wait")
	if r.code != ExitInterrupted || !strings.Contains(r.stderr, "tollgate: proxy default/demo: interrupted; it is Provisioning, Provisioned is False: Creating: proxy-a\n  it goes on by itself") {
		t.Errorf("exit code %d, stderr\n%s", r.code, r.stderr)
	}
	if len(f.signals) != 0 || f.runs["proxy/default/demo"].status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		t.Error("the interrupt reached the proxy")
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	f := newFake()
	run := running(workflows.TypeProxy, serving())
	tries := 0
	run.updates[workflows.UpdateReplace] = func(_ context.Context, arg []byte) (any, error) {
		if tries++; tries == 1 {
			return nil, serviceerror.NewUnavailable("restarting")
		} else if tries == 2 {
			return nil, client.NewWorkflowUpdateServiceTimeoutOrCanceledError(context.DeadlineExceeded)
		}
		if string(arg) != `{"reason":"blocked"}` {
			t.Errorf("input %s", arg)
		}
		return api.ReplaceResult{InstanceID: "local/b", IP: "127.0.0.8", Port: 3128, Joined: true}, nil
	}
	f.runs["proxy/default/demo"] = run
	r := newCLI(t, f).run("proxy", "replace", "demo", "--reason", "blocked")
	if r.code != ExitOK || r.stdout != "proxy default/demo: replaced, serves at 127.0.0.8:3128 (joined a replacement that was under way)\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
	if len(run.updateID) != 3 || run.updateID[0] == "" || run.updateID[0] != run.updateID[1] || run.updateID[1] != run.updateID[2] {
		t.Errorf("update ids %q: a repeat must be the same update", run.updateID)
	}
}

func TestReplaceInterrupted(t *testing.T) {
	t.Parallel()
	f := newFake()
	run := running(workflows.TypeProxy, serving())
	ctx, cancel := context.WithCancel(t.Context())
	run.updates[workflows.UpdateReplace] = func(ctx context.Context, _ []byte) (any, error) {
		cancel()
		<-ctx.Done()
		return nil, client.NewWorkflowUpdateServiceTimeoutOrCanceledError(ctx.Err())
	}
	f.runs["proxy/default/demo"] = run
	r := newCLI(t, f).runContext(ctx, "proxy", "replace", "demo", "--update-id", "u-7")
	if want := "tollgate: proxy default/demo: interrupted\n  the replacement goes on; wait for it again with: tollgate proxy replace demo --update-id u-7\n"; r.code != ExitInterrupted || !strings.HasSuffix(r.stderr, want) {
		t.Errorf("exit code %d, stderr %q, want %q", r.code, r.stderr, want)
	}
}

func TestUpdatesThatFail(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  error
		code ExitCode
		want string
	}{
		{"latched", temporal.NewNonRetryableApplicationError("the replacement cannot go on until something is changed: Unauthorized: no", "Latched", nil), ExitStuck,
			"tollgate: proxy default/demo: the replacement cannot go on until something is changed: Unauthorized: no\n  change what the message names; tollgate proxy retry NAME tries again at once\n"},
		{"deleting", temporal.NewNonRetryableApplicationError("proxy default/demo is being deleted (Requested)", "Deleting", nil), ExitConflict,
			"tollgate: proxy default/demo: proxy default/demo is being deleted (Requested)\n  wait for it with: tollgate proxy delete NAME --wait\n"},
		{"refused", temporal.NewApplicationError("spec.port: 1 is not allowed", ""), ExitRefused,
			"tollgate: proxy default/demo: refused: spec.port: 1 is not allowed\n"},
		{"refused while deleting", temporal.NewApplicationError("proxy default/demo is being deleted (Requested)", ""), ExitConflict,
			"tollgate: proxy default/demo: refused: proxy default/demo is being deleted (Requested)\n  wait for it with: tollgate proxy delete NAME --wait\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			run := running(workflows.TypeProxy, serving())
			run.updates[workflows.UpdateReplace] = func(context.Context, []byte) (any, error) { return nil, tc.err }
			f.runs["proxy/default/demo"] = run
			r := newCLI(t, f).run("proxy", "replace", "demo")
			if r.code != tc.code || !strings.HasSuffix(r.stderr, tc.want) {
				t.Errorf("exit code %d, want %d; stderr\n%s\nwant\n%s", r.code, tc.code, r.stderr, tc.want)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	newWorld := func() (*fakeTemporal, *fakeRun) {
		f := world()
		run := f.runs["proxy/default/demo"]
		run.updates[workflows.UpdateDelete] = func(context.Context, []byte) (any, error) {
			return api.DeleteResult{Deleted: []provider.InstanceID{"local/a", "local/b"}}, nil
		}
		return f, run
	}
	t.Run("asked for", func(t *testing.T) {
		t.Parallel()
		f, _ := newWorld()
		r := newCLI(t, f).run("proxy", "delete", "demo", "--reason", "no longer needed")
		r.expect(t, ExitOK, "")
		if diff := cmp.Diff(f.signals, []string{`proxy/default/demo delete {"reason":"no longer needed"}`}); diff != "" || r.stdout != "proxy default/demo: delete asked for\n" {
			t.Errorf("signals (-got +want)\n%s, stdout %q", diff, r.stdout)
		}
	})
	t.Run("waited for", func(t *testing.T) {
		t.Parallel()
		f, _ := newWorld()
		if r := newCLI(t, f).run("proxy", "delete", "demo", "--wait"); r.code != ExitOK || r.stdout != "proxy default/demo: deleted (local/a, local/b)\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
		}
	})
	t.Run("ended before it answered", func(t *testing.T) {
		t.Parallel()
		f, run := newWorld()
		run.updates[workflows.UpdateDelete] = func(context.Context, []byte) (any, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			run.status, run.result = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, api.ProxyResult{Deleted: []provider.InstanceID{"local/a"}}
			return nil, serviceerror.NewNotFound("workflow execution already completed")
		}
		if r := newCLI(t, f).run("proxy", "delete", "demo", "--wait"); r.code != ExitOK || r.stdout != "proxy default/demo: deleted (local/a)\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
		}
	})
	t.Run("terminated meanwhile", func(t *testing.T) {
		t.Parallel()
		f, run := newWorld()
		run.updates[workflows.UpdateDelete] = func(context.Context, []byte) (any, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			run.status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
			return nil, serviceerror.NewNotFound("workflow execution already completed")
		}
		r := newCLI(t, f).run("proxy", "delete", "demo", "--wait")
		if want := "tollgate: proxy default/demo does not exist: its workflow was terminated\n  its instance is collected by the next sweep: tollgate gc run\n"; r.code != ExitNotFound || !strings.HasSuffix(r.stderr, want) {
			t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
		}
	})
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		f, _ := newWorld()
		c := newCLI(t, f)
		for _, wait := range []string{"--wait=false", "--wait"} {
			c.run("proxy", "delete", "nobody", wait).expect(t, ExitNotFound, "tollgate: proxy default/nobody does not exist\n")
			c.run("proxy", "delete", "old", wait).expect(t, ExitNotFound,
				"tollgate: proxy default/old does not exist: it was deleted 2026-01-02T02:04:05Z\n  its life is shown by: tollgate proxy history old\n")
			r := c.run("proxy", "delete", "nobody", "old", "--ignore-not-found", wait)
			r.expect(t, ExitOK, "")
			if strings.Count(r.stdout, "is not there\n") != 2 {
				t.Errorf("stdout %q", r.stdout)
			}
		}
	})
	t.Run("by document", func(t *testing.T) {
		t.Parallel()
		f, _ := newWorld()
		c := newCLI(t, f)
		c.write("p.yaml", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: demo}\nspec: {provider: local}\n")
		c.run("proxy", "delete", "-f", "p.yaml").expect(t, ExitOK, "")
		if len(f.signals) != 1 {
			t.Errorf("signals %v", f.signals)
		}
	})
}

func TestRetry(t *testing.T) {
	t.Parallel()
	f := world()
	newCLI(t, f).run("proxy", "retry", "demo").expect(t, ExitOK, "")
	if diff := cmp.Diff(f.signals, []string{"proxy/default/demo retry null"}); diff != "" {
		t.Errorf("signals (-got +want)\n%s", diff)
	}
}
