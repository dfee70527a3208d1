package temporalclient_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
	"github.com/tollgate-dev/tollgate/workflows"
)

func dial(t *testing.T, o temporalclient.Options) *temporalclient.Connection {
	t.Helper()
	o.Isolated = true
	conn, err := temporalclient.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestSearchAttributes(t *testing.T) {
	t.Parallel()
	server := devservertest.Start(t, devservertest.WithNamespaces("one", "many", "partial", "wrong", "full"))
	connect := func(t *testing.T, namespace string) *temporalclient.Connection {
		return dial(t, temporalclient.Options{Address: server.HostPort(), Namespace: namespace})
	}

	t.Run("check says what to run", func(t *testing.T) {
		t.Parallel()
		err := temporalclient.CheckSearchAttributes(t.Context(), connect(t, "default"))
		var missing *temporalclient.SearchAttributesError
		if !errors.As(err, &missing) {
			t.Fatalf("error is %v, want a SearchAttributesError", err)
		}
		want := []string{
			"temporal operator search-attribute create --namespace default --name TollgateProvider --type Keyword",
			"temporal operator search-attribute create --namespace default --name TollgateHealthy --type Bool",
		}
		for _, line := range want {
			if !strings.Contains(err.Error(), "\n  "+line) {
				t.Errorf("error lacks the line %q:\n%v", line, err)
			}
		}
		if len(missing.Commands()) != len(workflows.SearchAttributes()) {
			t.Errorf("%d commands, want one per attribute", len(missing.Commands()))
		}
	})

	t.Run("registered and usable at once", func(t *testing.T) {
		t.Parallel()
		conn := connect(t, "one")
		if err := temporalclient.EnsureSearchAttributes(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		if err := temporalclient.CheckSearchAttributes(t.Context(), conn); err != nil {
			t.Error(err)
		}
		_, err := conn.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
			ID: "uses-them", TaskQueue: "nobody",
			TypedSearchAttributes: temporal.NewSearchAttributes(workflows.AttrProvider.ValueSet("local"), workflows.AttrHealthy.ValueSet(true)),
		}, workflows.TypeProxy)
		if err != nil {
			t.Errorf("a workflow cannot use them: %v", err)
		}
		start := time.Now()
		if err := temporalclient.EnsureSearchAttributes(t.Context(), conn); err != nil {
			t.Error(err)
		}
		t.Logf("second call took %s", time.Since(start))
	})

	t.Run("many at once", func(t *testing.T) {
		t.Parallel()
		const workers = 8
		var wg sync.WaitGroup
		errs := make([]error, workers)
		for i := range workers {
			conn := connect(t, "many")
			wg.Go(func() { errs[i] = temporalclient.EnsureSearchAttributes(t.Context(), conn) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		ns, err := connect(t, "many").Client.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "many"})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, alias := range ns.GetConfig().GetCustomSearchAttributeAliases() {
			seen[alias]++
		}
		want := map[string]int{}
		for _, key := range workflows.SearchAttributes() {
			want[key.GetName()] = 1
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("registered how often (-want +got):\n%s", diff)
		}
	})

	t.Run("only what is missing", func(t *testing.T) {
		t.Parallel()
		conn := connect(t, "partial")
		add(t, conn, "TollgatePhase", enumspb.INDEXED_VALUE_TYPE_KEYWORD)
		if err := temporalclient.EnsureSearchAttributes(t.Context(), conn); err != nil {
			t.Error(err)
		}
	})

	t.Run("another type is left to people", func(t *testing.T) {
		t.Parallel()
		conn := connect(t, "wrong")
		add(t, conn, "TollgatePhase", enumspb.INDEXED_VALUE_TYPE_INT)
		for name, err := range map[string]error{
			"ensure": temporalclient.EnsureSearchAttributes(t.Context(), conn),
			"check":  temporalclient.CheckSearchAttributes(t.Context(), conn),
		} {
			if err == nil || !strings.Contains(err.Error(), "TollgatePhase is Int, want Keyword") {
				t.Errorf("%s: error is %v", name, err)
			}
		}
	})

	t.Run("no room", func(t *testing.T) {
		t.Parallel()
		conn := connect(t, "full")
		var err error
		for err == nil { // SQL visibility has a fixed number of columns
			_, err = conn.Client.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
				Namespace: "full", SearchAttributes: map[string]enumspb.IndexedValueType{"Other" + uuid.NewString()[:8]: enumspb.INDEXED_VALUE_TYPE_KEYWORD},
			})
		}
		err = temporalclient.EnsureSearchAttributes(t.Context(), conn)
		var missing *temporalclient.SearchAttributesError
		if !errors.As(err, &missing) || missing.Err == nil || !strings.Contains(err.Error(), "cannot have more than") {
			t.Errorf("error is %v, want the server's reason", err)
		}
	})
}

func add(t *testing.T, conn *temporalclient.Connection, name string, typ enumspb.IndexedValueType) {
	t.Helper()
	_, err := conn.Client.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
		Namespace: conn.Namespace, SearchAttributes: map[string]enumspb.IndexedValueType{name: typ},
	})
	if err != nil {
		t.Fatal(err)
	}
}
