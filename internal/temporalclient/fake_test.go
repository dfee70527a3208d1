package temporalclient_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tollgate-dev/tollgate/internal/temporalclient"
	"github.com/tollgate-dev/tollgate/workflows"
)

// fake is a server that refuses what a test wants refused. The real engine has
// no permissions.
type fake struct {
	workflowservice.UnimplementedWorkflowServiceServer
	operatorservice.UnimplementedOperatorServiceServer

	systemInfo, describe, list, add, get error
	attributes                           map[string]enumspb.IndexedValueType

	mu   sync.Mutex
	meta metadata.MD // of the last call
}

func (f *fake) GetSystemInfo(ctx context.Context, _ *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	f.mu.Lock()
	f.meta = md
	f.mu.Unlock()
	return &workflowservice.GetSystemInfoResponse{}, f.systemInfo
}

func (f *fake) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{}, f.describe
}

func (f *fake) GetSearchAttributes(context.Context, *workflowservice.GetSearchAttributesRequest) (*workflowservice.GetSearchAttributesResponse, error) {
	return &workflowservice.GetSearchAttributesResponse{Keys: f.attributes}, f.get
}

func (f *fake) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: f.attributes}, f.list
}

func (f *fake) AddSearchAttributes(context.Context, *operatorservice.AddSearchAttributesRequest) (*operatorservice.AddSearchAttributesResponse, error) {
	return &operatorservice.AddSearchAttributesResponse{}, f.add
}

func (f *fake) serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(s, f)
	operatorservice.RegisterOperatorServiceServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// without returns all of Tollgate's search attributes but one.
func without(name string) map[string]enumspb.IndexedValueType {
	m := map[string]enumspb.IndexedValueType{}
	for _, key := range workflows.SearchAttributes() {
		if key.GetName() != name {
			m[key.GetName()] = key.GetValueType()
		}
	}
	return m
}

func TestSearchAttributesWithoutPermission(t *testing.T) {
	t.Parallel()
	denied := status.Error(codes.PermissionDenied, "not yours")
	unimplemented := status.Error(codes.Unimplemented, "no operator service")
	broken := status.Error(codes.Internal, "broken")
	const command = "temporal operator search-attribute create --namespace default --name TollgatePhase --type Keyword"
	tests := map[string]struct {
		server *fake
		want   []string // in the error; none means success
	}{
		"may not add":                             {&fake{attributes: without("TollgatePhase"), add: denied}, []string{"not yours", "run once:\n", command}},
		"no operator service":                     {&fake{attributes: without("TollgatePhase"), list: unimplemented, add: unimplemented}, []string{"no operator service", command}},
		"no operator service, nothing missing":    {&fake{attributes: without(""), list: unimplemented, add: unimplemented}, nil},
		"may not list, nothing missing":           {&fake{attributes: without(""), list: denied, add: denied}, nil},
		"may not even look":                       {&fake{list: denied, get: broken}, []string{`list the search attributes of namespace "default"`, "not yours"}},
		"listing fails":                           {&fake{attributes: without(""), list: broken}, []string{"broken"}},
		"adding fails for good":                   {&fake{attributes: without("TollgatePhase"), add: broken}, []string{"broken", command}},
		"unauthenticated for the operator's side": {&fake{attributes: without(""), list: status.Error(codes.Unauthenticated, "who?")}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := temporalclient.EnsureSearchAttributes(t.Context(), dial(t, temporalclient.Options{Address: tt.server.serve(t)}))
			if len(tt.want) == 0 && err != nil {
				t.Errorf("error is %v, want none", err)
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v lacks %q", err, want)
				}
			}
			if slices.Contains(tt.want, command) {
				var missing *temporalclient.SearchAttributesError
				if !errors.As(err, &missing) {
					t.Fatalf("error is a %T", err)
				}
				if diff := cmp.Diff([]string{command}, missing.Commands()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestDialExplainsRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		server *fake
		want   string // empty means success
	}{
		"may not look at the namespace": {&fake{describe: status.Error(codes.PermissionDenied, "no")}, ""},
		"bad API key":                   {&fake{systemInfo: status.Error(codes.Unauthenticated, "who?")}, "check TEMPORAL_API_KEY"},
		"not allowed":                   {&fake{systemInfo: status.Error(codes.PermissionDenied, "no")}, "check TEMPORAL_API_KEY"},
		"broken":                        {&fake{describe: status.Error(codes.Internal, "broken")}, "connect to temporal at"},
		"overloaded":                    {&fake{describe: status.Error(codes.Unavailable, "busy")}, "no temporal server answers"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := temporalclient.Dial(t.Context(), temporalclient.Options{Isolated: true, Address: tt.server.serve(t)})
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				conn.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

// TestEnvironmentReachesTheServer: what envconfig reads is what is sent.
func TestEnvironmentReachesTheServer(t *testing.T) {
	t.Parallel()
	server := &fake{}
	conn, err := temporalclient.Dial(t.Context(), temporalclient.Options{EnvLookup: env{
		"TEMPORAL_ADDRESS": server.serve(t), "TEMPORAL_CONFIG_FILE": "/absent", "TEMPORAL_NAMESPACE": "acme",
		"TEMPORAL_API_KEY": "the-key", "TEMPORAL_TLS": "false", "TEMPORAL_GRPC_META_X_TEAM": "tolls",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server.mu.Lock()
	defer server.mu.Unlock()
	for key, want := range map[string]string{"authorization": "Bearer the-key", "x-team": "tolls"} {
		if got := strings.Join(server.meta.Get(key), ","); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if conn.Namespace != "acme" {
		t.Errorf("namespace is %q", conn.Namespace)
	}
}
