package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func status(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

func about(err error, kind, name string, causes ...metav1.StatusCause) error {
	var st *apierrors.StatusError
	errors.As(err, &st)
	st.ErrStatus.Details = &metav1.StatusDetails{Kind: kind, Name: name, Causes: causes}
	return err
}

// bareAnswer is what the client library makes of an answer without a Status.
func bareAnswer(code int) error {
	return apierrors.NewGenericServerResponse(code, "GET", schema.GroupResource{Resource: "pods"}, "p", "<html>", 0, true)
}

// The texts are those of kube-apiserver 1.35.3, where not said otherwise.
func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		create = provider.OpCreate
		get    = provider.OpGet
	)
	terminating := metav1.StatusCause{Type: "NamespaceTerminating", Message: "namespace egress is being terminated", Field: "metadata.namespace"}
	for name, tc := range map[string]struct {
		op     provider.Op
		err    error
		class  provider.Class
		reason string
	}{
		"the Pod is gone":      {get, about(status(404, metav1.StatusReasonNotFound, `pods "p" not found`), "pods", "p"), provider.NotFound, ""},
		"no such namespace":    {create, about(status(404, metav1.StatusReasonNotFound, `namespaces "egress" not found`), "namespaces", "egress"), provider.Permanent, ""},
		"the cluster is gone":  {get, about(status(404, metav1.StatusReasonNotFound, `clusters "c" not found`), "clusters", "c"), provider.Transient, ""},
		"another one is gone":  {get, about(status(404, metav1.StatusReasonNotFound, `pods "q" not found`), "pods", "q"), provider.Transient, ""},
		"no such path":         {get, about(status(404, metav1.StatusReasonNotFound, "the server could not find the requested resource"), "", ""), provider.Transient, ""},
		"404 of a gateway":     {get, bareAnswer(404), provider.Transient, ""},
		"403 of a gateway":     {create, bareAnswer(403), provider.Transient, ""},
		"409 of a gateway":     {create, bareAnswer(409), provider.Transient, ""},
		"401 of a gateway":     {create, bareAnswer(401), provider.Permanent, provider.ReasonUnauthorized},
		"429 of flow control":  {create, bareAnswer(429), provider.RateLimited, ""},
		"503 of a gateway":     {get, bareAnswer(503), provider.Transient, ""},
		"the token is wrong":   {get, status(401, metav1.StatusReasonUnauthorized, "Unauthorized"), provider.Permanent, provider.ReasonUnauthorized},
		"a right is missing":   {create, status(403, metav1.StatusReasonForbidden, `pods is forbidden: User "system:serviceaccount:tollgate:tollgate" cannot create resource "pods" in API group "" in the namespace "egress"`), provider.Permanent, provider.ReasonForbidden},
		"a right to read":      {get, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: User "u" cannot get resource "pods" in API group "" in the namespace "egress"`), provider.Permanent, provider.ReasonForbidden},
		"nobody":               {create, status(403, metav1.StatusReasonForbidden, `pods is forbidden: User "system:anonymous" cannot create resource "pods" in API group "" in the namespace "egress"`), provider.Transient, provider.ReasonForbidden},
		"roles are not read":   {create, status(403, metav1.StatusReasonForbidden, `pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "egress": RBAC: role.rbac.authorization.k8s.io "tollgate-provider" not found`), provider.Transient, provider.ReasonForbidden},
		"not ready":            {create, &starting{status(403, metav1.StatusReasonForbidden, `pods is forbidden: User "u" cannot create resource "pods"`)}, provider.Transient, provider.ReasonForbidden},
		"quota":                {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: exceeded quota: tollgate, requested: pods=1, used: pods=1, limited: pods=1`), provider.QuotaExceeded, ""},
		"quota of Secrets":     {create, status(403, metav1.StatusReasonForbidden, `secrets "p" is forbidden: exceeded quota: tollgate, requested: secrets=1, used: secrets=0, limited: secrets=0`), provider.QuotaExceeded, ""},
		"quota wants limits":   {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: failed quota: tollgate: must specify limits.cpu for: proxy`), provider.Permanent, provider.ReasonInvalidSpec},
		"quota is not counted": {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: status unknown for quota: tollgate, resources: pods`), provider.Transient, ""},
		"limit range":          {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: maximum memory usage per Container is 1Mi, but limit is 64Mi`), provider.Permanent, provider.ReasonInvalidSpec},
		"security standard":    {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: violates PodSecurity "restricted:latest": hostPort (container "proxy" uses hostPort 3128)`), provider.Permanent, provider.ReasonInvalidSpec},
		"priority class":       {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: no PriorityClass with name nobody was found`), provider.Permanent, provider.ReasonInvalidSpec},
		"runtime class":        {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: pod rejected: RuntimeClass "nobody" not found`), provider.Permanent, provider.ReasonInvalidSpec},
		// From the source of the admission plugin, which the test cluster does not run.
		"service account":         {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: error looking up service account egress/nobody: serviceaccount "nobody" not found`), provider.Permanent, provider.ReasonInvalidSpec},
		"default service account": {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: error looking up service account egress/default: serviceaccount "default" not found`), provider.Transient, ""},
		"namespace ends":          {create, about(status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: unable to create new content in namespace egress because it is being terminated`), "pods", "p", terminating), provider.Permanent, ""},
		"policy":                  {create, status(422, metav1.StatusReasonInvalid, `pods "p" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'x' denied request: not on a Monday`), provider.Permanent, provider.ReasonInvalidSpec},
		// From the sources of admission plugins that the test cluster does not run.
		"nodes of a namespace": {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector`), provider.Permanent, provider.ReasonInvalidSpec},
		"tolerations":          {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist`), provider.Permanent, provider.ReasonInvalidSpec},
		"image policy":         {create, status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: image policy webhook backend denied one or more images: not signed`), provider.Permanent, provider.ReasonInvalidSpec},
		// From the source: a webhook's own refusal.
		"webhook refuses":    {create, status(403, metav1.StatusReasonForbidden, `admission webhook "x.example.org" denied the request: no`), provider.Permanent, provider.ReasonInvalidSpec},
		"webhook refuses so": {create, status(400, metav1.StatusReasonBadRequest, `admission webhook "x.example.org" denied the request: no`), provider.Permanent, provider.ReasonInvalidSpec},
		"webhook is away":    {create, status(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "x.example.org": failed to call webhook: Post "https://127.0.0.1:1/?timeout=1s": dial tcp 127.0.0.1:1: connect: connection refused`), provider.Transient, ""},
		"name is taken":      {create, about(status(409, metav1.StatusReasonAlreadyExists, `pods "p" already exists`), "pods", "p"), provider.Conflict, ""},
		"overtaken":          {create, status(409, metav1.StatusReasonConflict, `Operation cannot be fulfilled on resourcequotas "q": the object has been modified`), provider.Transient, ""},
		"invalid":            {create, status(422, metav1.StatusReasonInvalid, `Pod "p" is invalid: spec.containers[0].image: Required value`), provider.Permanent, provider.ReasonInvalidSpec},
		"node port is taken": {create, status(422, metav1.StatusReasonInvalid, `Service "p" is invalid: spec.ports[0].nodePort: Invalid value: 31234: provided port is already allocated`), provider.CapacityUnavailable, ""},
		"too large":          {create, status(413, metav1.StatusReasonRequestEntityTooLarge, "Request entity too large: limit is 3145728"), provider.Permanent, provider.ReasonInvalidSpec},
		"wrong media type":   {create, status(406, metav1.StatusReasonNotAcceptable, "only the following media types are accepted"), provider.Permanent, ""},
		"storage begins":     {get, status(429, metav1.StatusReasonTooManyRequests, "storage is (re)initializing"), provider.RateLimited, ""},
		"forgotten":          {get, status(410, metav1.StatusReasonExpired, "The provided continue parameter is too old"), provider.Transient, ""},
		"etcd":               {get, status(500, metav1.StatusReasonInternalError, "Internal error occurred: etcdserver: leader changed"), provider.Transient, ""},
		"timeout":            {create, status(504, metav1.StatusReasonTimeout, "Timeout: request did not complete within requested timeout"), provider.Transient, ""},
		"teapot":             {get, status(418, "", "no"), provider.Transient, ""},
		"credentials":        {get, &errAccess{errors.New("token: no such secret")}, provider.Transient, provider.ReasonUnauthorized},
		"no answer":          {get, io.ErrUnexpectedEOF, provider.Transient, ""},
		"cancelled":          {get, context.Canceled, provider.Transient, ""},
		"makes no sense":     {get, errAnswer, provider.Transient, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := judge(tc.op, fmt.Errorf("wrapped: %w", &apiError{err: tc.err, resource: pods, name: "p"}))
			if v.class != tc.class || v.reason != tc.reason {
				t.Errorf("class %s, reason %q; want %s, %q", v.class, v.reason, tc.class, tc.reason)
			}
		})
	}
}

func testProvider(t *testing.T, change func(*Options)) *Provider {
	t.Helper()
	p, err := New(provider.Config{Name: "cluster", Installation: "acme",
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("the-token")), nil
		},
		Decode: func(into any) error {
			o := into.(*Options)
			*o = Options{Server: "https://127.0.0.1:1", Token: "token", Namespace: "egress", Image: "example.org/proxy:1"}
			if change != nil {
				change(o)
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestClassify(t *testing.T) {
	t.Parallel()
	p := testProvider(t, nil)
	limited := about(status(429, metav1.StatusReasonTooManyRequests, "slow down"), "pods", "p")
	var st *apierrors.StatusError
	errors.As(limited, &st)
	st.ErrStatus.Details.RetryAfterSeconds = 3
	for name, tc := range map[string]struct {
		err  error
		wait time.Duration
		text string
	}{
		"wait in the body":        {&apiError{err: limited}, 3 * time.Second, "slow down (429 TooManyRequests)"},
		"wait in the header":      {&apiError{err: bareAnswer(429), retryAfter: 7 * time.Second}, 7 * time.Second, "status 429 without a word of an API server"},
		"the token is taken out":  {status(500, "", "you sent the-token"), 0, "you sent [redacted] (500)"},
		"and what it was made of": {status(422, "", `invalid: "c2VjcmV0IGNvbmZpZw=="`), 0, `invalid: "[redacted]"`},
	} {
		p.conn.shows("Bearer the-token")
		err := p.classify(t.Context(), provider.OpCreate, "p", tc.err, provider.NewSensitive([]byte("secret config")))
		if provider.RetryAfterOf(err) != tc.wait || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v after %v, want %q after %v", name, err, provider.RetryAfterOf(err), tc.text, tc.wait)
		}
	}
	if p.classify(t.Context(), provider.OpGet, "p", nil) != nil {
		t.Error("no error is an error")
	}
	// A refusal of our own budget says less than we know of the call.
	throttled := provider.WithRetryAfter(provider.WithReason(provider.Wrap(provider.RateLimited, "", "", "", errors.New("budget")), provider.ReasonThrottled), time.Minute)
	err := p.classify(t.Context(), provider.OpGet, "p", &apiError{err: throttled})
	var e *provider.Error
	if !errors.As(err, &e) || e.Op != provider.OpGet || e.Provider != "cluster" || e.ID != "p" || e.Reason != provider.ReasonThrottled || e.RetryAfter != time.Minute {
		t.Errorf("throttled: %+v", e)
	}
}
