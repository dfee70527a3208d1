package gardener_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	shoots := schema.GroupResource{Group: "core.gardener.cloud", Resource: "shoots"}
	for name, c := range map[string]struct {
		err    error
		class  provider.Class
		reason string
		after  time.Duration
	}{
		"network":       {errors.New("connection refused"), provider.Transient, "", 0},
		"cut off":       {context.DeadlineExceeded, provider.Transient, "", 0},
		"unauthorized":  {apierrors.NewUnauthorized("secret"), provider.Permanent, provider.ReasonUnauthorized, 0},
		"forbidden":     {apierrors.NewForbidden(shoots, "", errors.New("secret")), provider.Permanent, provider.ReasonForbidden, 0},
		"anonymous":     {apierrors.NewForbidden(shoots, "", errors.New(`User "system:anonymous" cannot list`)), provider.Transient, provider.ReasonUnauthorized, 0},
		"gone object":   {apierrors.NewNotFound(shoots, "shop"), provider.NotFound, "", 0},
		"absent API":    {apierrors.NewGenericServerResponse(404, "get", shoots, "shop", "404 page not found", 0, true), provider.Transient, "", 0},
		"absent kind":   {apierrors.NewNotFound(shoots, ""), provider.Transient, "", 0},
		"throttled":     {apierrors.NewTooManyRequests("secret", 7), provider.RateLimited, "", 7 * time.Second},
		"initializing":  {apierrors.NewGenericServerResponse(429, "get", shoots, "", "", 1, true), provider.RateLimited, "", time.Second},
		"conflict":      {apierrors.NewConflict(shoots, "shop", errors.New("secret")), provider.Conflict, "", 0},
		"bad request":   {apierrors.NewBadRequest("secret"), provider.Permanent, "", 0},
		"invalid":       {apierrors.NewInvalid(schema.GroupKind{}, "shop", nil), provider.Permanent, "", 0},
		"internal":      {apierrors.NewInternalError(errors.New("secret")), provider.Transient, "", 0},
		"unavailable":   {apierrors.NewServiceUnavailable("secret"), provider.Transient, "", 0},
		"expired":       {apierrors.NewResourceExpired("secret"), provider.Transient, "", 0},
		"future":        {apierrors.NewTimeoutError("secret", 1), provider.Transient, "", time.Second},
		"known already": {provider.Wrap(provider.QuotaExceeded, "x", "", "", errors.New("e")), provider.QuotaExceeded, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := gardener.Classify(provider.OpGet, "garden", "id", fmt.Errorf("around: %w", c.err))
			if got := provider.ClassOf(err); got != c.class {
				t.Errorf("class %s, want %s: %v", got, c.class, err)
			}
			if got := provider.ReasonOf(err); got != c.reason {
				t.Errorf("reason %q, want %q", got, c.reason)
			}
			if got := provider.RetryAfterOf(err); got != c.after {
				t.Errorf("wait %v, want %v", got, c.after)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the server's message is in %q", err)
			}
			if !strings.HasPrefix(err.Error(), "garden: ") {
				t.Errorf("the name is not in %q", err)
			}
		})
	}
	if err := gardener.Classify(provider.OpGet, "garden", "", nil); err != nil {
		t.Error(err)
	}
	gone := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: metav1.StatusReasonGone}}
	if !gardener.IsExpired(apierrors.NewResourceExpired("")) || !gardener.IsExpired(gone) || gardener.IsExpired(errors.New("")) {
		t.Error("410 is not told from others")
	}
}

// Nothing is tried again by the client itself.
func TestOneRequestPerCall(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer srv.Close()
	c := client(t, &rest.Config{Host: srv.URL})
	for name, call := range map[string]func() error{
		"get":    func() error { _, err := c.Shoots("a").Get(t.Context(), "b", metav1.GetOptions{}); return err },
		"list":   func() error { _, err := c.Projects().List(t.Context(), metav1.ListOptions{}); return err },
		"watch":  func() error { _, err := c.Shoots("").Watch(t.Context(), metav1.ListOptions{}); return err },
		"secret": func() error { _, err := c.Secret(t.Context(), "a", "b"); return err },
		"patch": func() error {
			_, err := c.Shoots("a").Patch(t.Context(), "b", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			return err
		},
	} {
		before := requests.Load()
		if err := call(); provider.ClassOf(gardener.Classify(provider.OpGet, "g", "", err)) != provider.RateLimited {
			t.Errorf("%s: %v", name, err)
		}
		if n := requests.Load() - before; n != 1 {
			t.Errorf("%s made %d requests", name, n)
		}
	}
}

func client(t *testing.T, cfg *rest.Config) *gardener.Client {
	t.Helper()
	cfg.QPS = -1
	c, err := gardener.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestUIDOutlivesAMove(t *testing.T) {
	t.Parallel()
	s := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{UID: "first"}}
	if got := gardener.UID(s); got != "first" {
		t.Errorf("before the first reconciliation: %s", got)
	}
	s.Status.UID, s.UID = "first", "second"
	if got := gardener.UID(s); got != "first" {
		t.Errorf("after a move: %s", got)
	}
}

func TestCreated(t *testing.T) {
	t.Parallel()
	for op, want := range map[*corev1beta1.LastOperation]bool{
		nil:                                      false,
		{Type: "Create", State: "Pending"}:       false,
		{Type: "Create", State: "Processing"}:    false,
		{Type: "Create", State: "Error"}:         false,
		{Type: "Create", State: "Failed"}:        false,
		{Type: "Create", State: "Succeeded"}:     true,
		{Type: "Reconcile", State: "Processing"}: true,
		{Type: "Migrate", State: "Failed"}:       true,
		{Type: "Restore", State: "Pending"}:      true,
		{Type: "Delete", State: "Processing"}:    true,
	} {
		s := &corev1beta1.Shoot{Status: corev1beta1.ShootStatus{LastOperation: op}}
		if got := gardener.Created(s); got != want {
			t.Errorf("%+v: %v", op, got)
		}
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	if p, ok := gardener.ProjectOf("live", gardener.Account("live", "acme")); p != "acme" || !ok {
		t.Errorf("%q, %v", p, ok)
	}
	for _, foreign := range []string{"", "live", "live/", "live2/acme", "other/acme", "live/a/b"} {
		if p, ok := gardener.ProjectOf("live", foreign); ok {
			t.Errorf("%q is project %q of live", foreign, p)
		}
	}
}

// projects answers for one namespace, without a label, and one project.
func projects(t *testing.T, answer func(path string) any) *gardener.ProjectNames {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := answer(r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		if s, ok := out.(metav1.Status); ok {
			w.WriteHeader(int(s.Code))
		}
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(srv.Close)
	kubeconfig := fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: c, cluster: {server: %q}}],
		contexts: [{name: x, context: {cluster: c}}]}`, srv.URL)
	return gardener.NewProjectNames(gardener.NewConnection(gardener.Options{QPS: -1,
		Kubeconfig: func(context.Context) ([]byte, error) { return kubeconfig, nil }}))
}

func status(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reason, Message: message}
}

func namespace(name string, labels map[string]string) any {
	return map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": name, "labels": labels}}
}

func projectList(namespaces map[string]string) any {
	items := []any{map[string]any{"metadata": map[string]any{"name": "pending"}, "spec": map[string]any{}}}
	for name, ns := range namespaces {
		items = append(items, map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{"namespace": ns}})
	}
	return map[string]any{"kind": "ProjectList", "apiVersion": "core.gardener.cloud/v1beta1", "items": items}
}

const listPath = "/apis/core.gardener.cloud/v1beta1/projects"

func TestProjectNames(t *testing.T) {
	t.Parallel()
	denied := status(403, metav1.StatusReasonForbidden, "no")
	anonymous := status(403, metav1.StatusReasonForbidden, `User "system:anonymous" may not`)
	for name, c := range map[string]struct {
		namespace, list any
		want            string
		err             error
		class           provider.Class
	}{
		"by label":            {namespace("garden-x1", map[string]string{gardener.LabelProject: "acme"}), denied, "acme", nil, ""},
		"by spec":             {namespace("garden-x1", nil), projectList(map[string]string{"acme": "garden-x1"}), "acme", nil, ""},
		"namespace forbidden": {denied, projectList(map[string]string{"acme": "garden-x1"}), "acme", nil, ""},
		"no project":          {namespace("garden-x1", nil), projectList(map[string]string{"x1": "garden-other"}), "", gardener.ErrNoProject, ""},
		"namespace gone":      {status(404, metav1.StatusReasonNotFound, ""), projectList(nil), "", nil, provider.Transient},
		"both forbidden":      {denied, denied, "", nil, provider.Permanent},
		"API server starts":   {anonymous, projectList(nil), "", nil, provider.Transient},
		"projects fail":       {namespace("garden-x1", nil), status(503, "", ""), "", nil, provider.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := projects(t, func(path string) any {
				if path == listPath {
					return c.list
				}
				return c.namespace
			})
			got, err := p.Name(t.Context(), "garden-x1")
			if got != c.want || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("%q, %v: want %q, %v", got, err, c.want, c.err)
			}
			if c.class != "" && provider.ClassOf(gardener.Classify(provider.OpGet, "g", "", err)) != c.class {
				t.Errorf("%v: want class %s", err, c.class)
			}
		})
	}
}

// Many namespaces cost one listing, and what is known costs nothing.
func TestProjectNamesAreRemembered(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	all := map[string]string{}
	var namespaces []string
	for i := range 20 {
		namespaces = append(namespaces, fmt.Sprintf("garden-%d", i))
		all[fmt.Sprintf("p%d", i)] = namespaces[i]
	}
	p := projects(t, func(path string) any { requests.Add(1); return projectList(all) })
	for range 3 {
		got, err := p.Names(t.Context(), namespaces...)
		if err != nil || len(got) != 20 || got["garden-7"] != "p7" {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestConnection(t *testing.T) {
	for name, c := range map[string]struct {
		o     gardener.Options
		want  string
		class provider.Class
	}{
		"none":       {gardener.Options{}, "runs in no pod", provider.Permanent},
		"nonsense":   {content("\tsecret"), "is no kubeconfig", provider.Permanent},
		"empty":      {content(" \n"), "is empty", provider.Transient},
		"no context": {gardener.Options{Kubeconfig: content("{}").Kubeconfig, Context: "other"}, `has no context "other"`, provider.Permanent},
		"no cluster": {content("{apiVersion: v1, kind: Config}"), "kubeconfig:", provider.Permanent},
		"not readable": {gardener.Options{Kubeconfig: func(context.Context) ([]byte, error) {
			return nil, errors.New("not now")
		}}, "not now", provider.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", "")
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			_, err := gardener.NewConnection(c.o).Client(t.Context())
			err = gardener.Classify(provider.OpGet, "g", "", err)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %s", err, c.want)
			}
			if provider.ClassOf(err) != c.class || provider.ReasonOf(err) != provider.ReasonUnauthorized {
				t.Errorf("%s, %s: want %s", provider.ClassOf(err), provider.ReasonOf(err), c.class)
			}
		})
	}
}

func content(s string) gardener.Options {
	return gardener.Options{Kubeconfig: func(context.Context) ([]byte, error) { return []byte(s), nil }}
}

// A kubeconfig that has changed gives another client.
func TestRotation(t *testing.T) {
	t.Parallel()
	token := "one"
	c := gardener.NewConnection(gardener.Options{Kubeconfig: func(context.Context) ([]byte, error) {
		return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
			contexts: [{name: x, context: {cluster: c, user: u}}], users: [{name: u, user: {token: %s}}]}`, token), nil
	}})
	get := func() *gardener.Client {
		out, err := c.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := get(), get()
	token = "two"
	if d := get(); a != b || d == a {
		t.Error("same kubeconfig, other client; or the other way round")
	}
}
