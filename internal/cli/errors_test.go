package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
	"github.com/tollgate-dev/tollgate/workflows"
)

func TestErrorsOfTemporalAreTranslated(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  error
		code ExitCode
		want string
	}{
		{"unavailable", serviceerror.NewUnavailable("connection refused"), ExitUnavailable,
			"tollgate: temporal cannot be reached at 127.0.0.1:7233: connection refused\n  is make run up? Another address is given by --address, TEMPORAL_ADDRESS or a profile in temporal.toml\n"},
		{"namespace missing", serviceerror.NewNamespaceNotFound("default"), ExitUnavailable,
			"tollgate: temporal at 127.0.0.1:7233 has no namespace \"default\"\n  create it with: temporal operator namespace create -n default; or choose another with --temporal-namespace or TEMPORAL_NAMESPACE\n"},
		{"permission denied", serviceerror.NewPermissionDenied("no", "policy"), ExitUnavailable,
			"tollgate: temporal at 127.0.0.1:7233 refuses this client: no\n  check TEMPORAL_API_KEY, the TLS files or the profile in temporal.toml\n"},
		{"unauthenticated", status.Error(grpccodes.Unauthenticated, "bad key"), ExitUnavailable,
			"tollgate: temporal at 127.0.0.1:7233 refuses this client: rpc error: code = Unauthenticated desc = bad key\n  check TEMPORAL_API_KEY, the TLS files or the profile in temporal.toml\n"},
		{"busy", serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "rps"), ExitUnavailable,
			"tollgate: proxy default/demo: temporal is busy: rps\n  try again in a moment\n"},
		{"no recent poller", serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down"), ExitNoWorker,
			"tollgate: no worker is polling task queue tollgate: is make run up?\n  start one with make run, or a tollgate-worker for 127.0.0.1:7233, namespace default\n"},
		{"query failed", serviceerror.NewQueryFailed("unknown queryType status"), ExitFailure,
			"tollgate: proxy default/demo: the workflow could not answer: unknown queryType status\n"},
		{"refused request", serviceerror.NewInvalidArgument("workflow id too long"), ExitFailure,
			"tollgate: proxy default/demo: temporal refuses the request: workflow id too long\n"},
		{"encrypted", errSealed, ExitFailure, sealedDemo},
		{"not decodable", fmt.Errorf("%w: unknown field", converter.ErrUnableToDecode), ExitFailure,
			"tollgate: proxy default/demo: the answer cannot be read: unable to decode: unknown field\n  are the workers of another version? look with tollgate version\n"},
		{"changed", fmt.Errorf("decrypt: %w", codec.ErrNotAuthentic), ExitFailure,
			"tollgate: proxy default/demo: the answer cannot be decrypted: decrypt: the payload does not authenticate\n  the key that encrypted it is not in the key file: look with tollgate keys list\n"},
		{"anything else", errors.New("strange"), ExitFailure, "tollgate: proxy default/demo: strange\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := world()
			f.err = tc.err
			newCLI(t, f).run("proxy", "get", "demo").expect(t, tc.code, tc.want)
		})
	}
}

// errSealed is what the SDK says to a client without a key.
var errSealed = fmt.Errorf("payload item 0: encoding binary/encrypted: %w", converter.ErrEncodingIsNotSupported)

const sealedDemo = "tollgate: proxy default/demo: the answer is encrypted, and no key file is given\n" +
	"  give the workers' key file with --codec-key-file or TOLLGATE_CODEC_KEYS; tollgate-dev keeps it as codec-keys.json in its state directory\n"

// Whoever cannot read the answer is told before anything is changed.
func TestWaitsThatCannotBeReadChangeNothing(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"proxy replace demo", "proxy delete demo --wait"} {
		f := world()
		f.runs["proxy/default/demo"].statuses = []any{errSealed}
		newCLI(t, f).run(strings.Fields(args)...).expect(t, ExitFailure, sealedDemo)
		if r := f.runs["proxy/default/demo"]; len(r.updateID) != 0 || len(f.signals) != 0 {
			t.Errorf("%s: updates %v, signals %v", args, r.updateID, f.signals)
		}
	}
}

func TestProvidersThatCannotBeReadAreLeftOut(t *testing.T) {
	t.Parallel()
	f := world()
	f.runs[workflows.ProviderHealthID("local")].statuses = []any{errSealed}
	r := newCLI(t, f).run("providers", "list")
	if r.code != ExitFailure || !strings.Contains(r.stderr, "provider local: the answer is encrypted, and no key file is given") ||
		!strings.Contains(r.stdout, "hetzner") || strings.Contains(r.stdout, "local") {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

func TestMissingSearchAttributesAreNamed(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.err = serviceerror.NewInvalidArgument("Namespace default has no mapping defined for search attribute TollgateProvider")
	r := newCLI(t, f).run("proxy", "create", "demo", "-p", "local")
	r.expect(t, ExitUnavailable, "tollgate: temporal namespace \"default\" lacks Tollgate's search attributes: Namespace default has no mapping defined for search attribute TollgateProvider\n"+
		"  a worker adds them when it starts; or run: temporal operator search-attribute create -n default --name TollgateProvider --type Keyword --name TollgateNamespace --type Keyword "+
		"--name TollgatePhase --type Keyword --name TollgateReason --type Keyword --name TollgateHealthy --type Bool --name TollgateInstance --type Keyword --name TollgateIP --type Keyword "+
		"--name TollgateSource --type Keyword --name TollgateGap --type Keyword --name TollgateCaughtUpTo --type Datetime --name TollgateLagSeconds --type Int --name TollgateDeadLetters --type Int --name TollgateTenant --type Keyword\n")
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  error
		code ExitCode
		want string
	}{
		{"unreachable", &temporalclient.UnreachableError{Address: "10.0.0.1:7233", Timeout: time.Second, Err: errors.New("connection refused")}, ExitUnavailable,
			"tollgate: temporal cannot be reached at 10.0.0.1:7233: connection refused\n  is make run up? Another address is given by --address, TEMPORAL_ADDRESS or a profile in temporal.toml\n"},
		{"configuration", errors.New("temporal configuration: profile \"x\" does not exist"), ExitUnavailable,
			"tollgate: temporal configuration: profile \"x\" does not exist\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCLI(t, newFake())
			c.dialErr = tc.err
			c.run("proxy", "list").expect(t, tc.code, tc.want)
		})
	}
}

// Whatever needs a worker's answer ends early when nobody is there to give it.
func TestNoWorker(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"proxy get demo", "proxy list", "proxy update demo --port 1", "proxy replace demo", "proxy delete demo --wait",
		"proxy create new -p local --wait", "providers list", "providers check local", "fleet list", "apply -f p.yaml",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			f := world()
			f.pollers = 0
			c := newCLI(t, f)
			c.write("p.yaml", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: demo}\nspec: {provider: local}\n")
			start := time.Now()
			r := c.run(strings.Fields(args)...)
			want := "tollgate: no worker is polling task queue tollgate: is make run up?\n"
			if r.code != ExitNoWorker || !strings.Contains(r.stderr, want) {
				t.Errorf("exit code %d, stderr %q", r.code, r.stderr)
			}
			if took := time.Since(start); took > callTimeout {
				t.Errorf("took %s", took)
			}
		})
	}
}

// What needs no worker works without one.
func TestWithoutAWorker(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"proxy create new -p local", "proxy delete demo", "proxy retry demo", "proxy replace demo --wait=false", "schedules list"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			f := world()
			f.pollers = 0
			newCLI(t, f).run(strings.Fields(args)...).expect(t, ExitOK, "")
		})
	}
}

func TestOneProvidersTroubleLeavesTheOthers(t *testing.T) {
	t.Parallel()
	f := world()
	f.runs[workflows.FleetID("hetzner", 0)].table = serviceerror.NewQueryFailed("panic")
	r := newCLI(t, f).run("proxy", "list")
	r.expect(t, ExitFailure, "tollgate: fleet/hetzner/0: the workflow could not answer: panic\n")
	if !strings.Contains(r.stdout, "demo") || strings.Contains(r.stdout, "waiting") {
		t.Errorf("stdout\n%s", r.stdout)
	}
}

func TestCreateOfANameInUse(t *testing.T) {
	t.Parallel()
	newCLI(t, world()).run("proxy", "create", "demo", "-p", "local").expect(t, ExitConflict,
		"tollgate: proxy default/demo exists already\n  change it with tollgate proxy update demo or tollgate apply -f FILE\n")
	// The name of a deleted proxy is free.
	newCLI(t, world()).run("proxy", "create", "old", "-p", "local").expect(t, ExitOK, "")
}

func TestExitCodesAreDistinctAndDocumented(t *testing.T) {
	t.Parallel()
	seen := map[ExitCode]bool{}
	for _, m := range exitMeanings {
		if seen[m.Code] || m.Meaning == "" {
			t.Errorf("code %d is listed twice or has no meaning", m.Code)
		}
		seen[m.Code] = true
	}
	for _, c := range []ExitCode{ExitOK, ExitFailure, ExitUsage, ExitNotFound, ExitConflict, ExitUnavailable, ExitNoWorker, ExitRefused,
		ExitTimeout, ExitStuck, ExitNeverHealthy, ExitUnhealthy, ExitInterrupted} {
		if !seen[c] {
			t.Errorf("code %d has no meaning in the table", c)
		}
	}
}

// Text of others cannot move the cursor of a terminal.
func TestForeignTextIsHarmless(t *testing.T) {
	t.Parallel()
	f := world()
	p := serving()
	p.Status.Conditions[1].Message = "a\x1b[2Jb\nc\u009bd"
	f.runs["proxy/default/demo"] = running(workflows.TypeProxy, p)
	for _, args := range []string{"proxy get demo", "proxy get demo -o json"} {
		r := newCLI(t, f).run(strings.Fields(args)...)
		if strings.ContainsAny(r.stdout, "\x1b\u009b") && !strings.Contains(args, "json") || strings.Contains(r.stdout, "\x1b") {
			t.Errorf("%s prints %q", args, r.stdout)
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"proxy get ":               "demo waiting",
		"proxy get d":              "demo",
		"proxy delete demo ":       "waiting",
		"proxy list -p ":           "hetzner local",
		"gc run l":                 "local",
		"fleet release ":           "hetzner local",
		"proxy list --phase R":     "Pending Provisioning Running Replacing Deleting",
		"proxy create x -o ":       "table wide json yaml",
		"proxy list -n ":           "default team-b",
		"proxy create x -p local ": "",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			words := strings.Split(args, " ")
			r := newCLI(t, world()).run(append([]string{"__complete"}, words...)...)
			var got []string
			for line := range strings.Lines(r.stdout) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, ":") {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(strings.Join(got, " "), want); diff != "" {
				t.Errorf("(-got +want)\n%s", diff)
			}
		})
	}
	c := newCLI(t, world())
	c.dialErr = context.DeadlineExceeded
	if r := c.run("__complete", "proxy", "get", ""); strings.TrimSpace(r.stdout) != ":4" {
		t.Errorf("without Temporal: %q", r.stdout)
	}
}

func TestProxyWhoseWorkflowFailed(t *testing.T) {
	t.Parallel()
	f := newFake()
	r := running(workflows.TypeProxy)
	r.status, r.result = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, temporal.NewNonRetryableApplicationError("spec.provider: is required", "InvalidInput", nil)
	f.runs["proxy/default/demo"] = r
	newCLI(t, f).run("proxy", "get", "demo").expect(t, ExitNotFound,
		"tollgate: proxy default/demo does not exist: its workflow ended in a failure: spec.provider: is required\n  its life is shown by: tollgate proxy history demo\n")
}

// Several failures each keep their advice; the same one is said once.
func TestSeveralFailures(t *testing.T) {
	t.Parallel()
	f := world()
	newCLI(t, f).run("proxy", "delete", "nobody", "old", "nobody").expect(t, ExitNotFound, "tollgate: proxy default/nobody does not exist\n"+
		"tollgate: proxy default/old does not exist: it was deleted 2026-01-02T02:04:05Z\n  its life is shown by: tollgate proxy history old\n")
}

func TestEachCommandIsOneTrace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args string
		code codes.Code
	}{{"proxy get demo", codes.Unset}, {"proxy get nobody", codes.Error}} {
		recorder := tracetest.NewSpanRecorder()
		c := newCLI(t, world())
		c.tracing = func(ctx context.Context) (*telemetry.Tracing, error) {
			return telemetry.NewTracing(ctx, telemetry.TracingOptions{Service: "test", Processors: []sdktrace.SpanProcessor{recorder}, Getenv: func(string) string { return "" }})
		}
		c.connect = func(_ context.Context, o ConnectOptions) (*Connection, error) {
			if o.Tracer == nil {
				t.Error("the connection does not take part in the trace")
			}
			return &Connection{Client: c.fake}, nil
		}
		c.run(strings.Fields(tc.args)...)
		spans := recorder.Ended()
		if len(spans) != 1 || spans[0].Name() != "tollgate proxy get" || spans[0].Parent().IsValid() || spans[0].Status().Code != tc.code {
			t.Errorf("%s: spans %v", tc.args, spans)
		}
	}
}

// A proxy that names a provider which does not exist gives it a fleet. A sweep
// of it would wait for ever.
func TestSweepOfAProviderThatIsOnlyNamed(t *testing.T) {
	t.Parallel()
	f := world()
	f.runs[workflows.FleetID("named", 0)] = running(workflows.TypeFleetWatch)
	newCLI(t, f).run("gc", "run", "named").expect(t, ExitNotFound,
		"tollgate: provider \"named\" is not known: no worker with it in its configuration ever ran\n  look with: tollgate providers list\n")
}
