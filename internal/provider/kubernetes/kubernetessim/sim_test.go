package kubernetessim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetessim"
)

const base = "/api/v1/namespaces/default/"

type object = map[string]any

func pod(name string, labels object) object {
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "labels": labels},
		"spec": object{"containers": []object{{"name": "proxy", "image": "example.org/proxy"}}}}
}

func start(t *testing.T, o kubernetessim.Options) (*kubernetessim.Sim, *kubernetessim.Client) {
	t.Helper()
	sim, err := kubernetessim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(sim)
	t.Cleanup(s.Close)
	return sim, &kubernetessim.Client{URL: s.URL, Token: o.Token}
}

func do(t *testing.T, c *kubernetessim.Client, method, path string, in, out any) {
	t.Helper()
	if err := c.Do(t.Context(), method, path, in, out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

func wantStatus(t *testing.T, err error, code int, reason metav1.StatusReason, text string) {
	t.Helper()
	var st *kubernetessim.StatusError
	if !errors.As(err, &st) || st.Code != code || st.Status.Reason != reason || !strings.Contains(st.Status.Message, text) {
		t.Errorf("%v (%+v), want %d %s %q", err, st, code, reason, text)
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	sim, c := start(t, kubernetessim.Options{Token: "sesame"})
	anonymous := &kubernetessim.Client{URL: c.URL}
	wantStatus(t, anonymous.Do(t.Context(), http.MethodGet, base+"pods", nil, nil), 401, metav1.StatusReasonUnauthorized, "Unauthorized")

	var made corev1.Pod
	do(t, c, http.MethodPost, base+"pods", pod("a", object{"x": "1"}), &made)
	if made.UID == "" || made.ResourceVersion == "" || made.Status.Phase != corev1.PodPending || time.Since(made.CreationTimestamp.Time) > time.Minute {
		t.Errorf("made %+v", made)
	}
	post := func(o object) error { return c.Do(t.Context(), http.MethodPost, base+"pods", o, nil) }
	wantStatus(t, post(pod("a", nil)), 409, metav1.StatusReasonAlreadyExists, `pods "a" already exists`)
	wantStatus(t, post(pod("A", nil)), 422, metav1.StatusReasonInvalid, `Pod "A" is invalid: metadata.name`)
	wantStatus(t, post(pod("b", object{"x": "a b"})), 422, metav1.StatusReasonInvalid, "metadata.labels")
	wantStatus(t, post(object{"metadata": object{"name": "b"}, "spec": object{"containers": []object{}}}), 422, metav1.StatusReasonInvalid, "containers")
	wantStatus(t, post(object{"metadata": object{"name": "b"}, "colour": "blue"}), 400, metav1.StatusReasonBadRequest, "colour")
	other := pod("b", nil)
	other["metadata"].(object)["namespace"] = "elsewhere"
	wantStatus(t, post(other), 400, metav1.StatusReasonBadRequest, "namespace")
	wantStatus(t, c.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/none/pods", pod("b", nil), nil), 404, metav1.StatusReasonNotFound, `namespaces "none" not found`)
	sim.AddNamespace("ending", true)
	wantStatus(t, c.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/ending/pods", pod("b", nil), nil), 403, metav1.StatusReasonForbidden, "being terminated")
	wantStatus(t, c.Do(t.Context(), http.MethodGet, base+"pods/none", nil, nil), 404, metav1.StatusReasonNotFound, `pods "none" not found`)
	wantStatus(t, c.Do(t.Context(), http.MethodPatch, base+"pods/a", object{}, nil), 405, metav1.StatusReasonMethodNotAllowed, "")
	wantStatus(t, c.Do(t.Context(), http.MethodPut, base+"pods/a", pod("a", nil), nil), 405, metav1.StatusReasonMethodNotAllowed, "status only")

	// A trial makes nothing.
	do(t, c, http.MethodPost, base+"pods?dryRun=All", pod("b", nil), nil)
	wantStatus(t, c.Do(t.Context(), http.MethodGet, base+"pods/b", nil, nil), 404, metav1.StatusReasonNotFound, "")

	// An older version of an object changes nothing.
	do(t, c, http.MethodPut, base+"pods/a/status", made, nil)
	wantStatus(t, c.Do(t.Context(), http.MethodPut, base+"pods/a/status", made, nil), 409, metav1.StatusReasonConflict, "has been modified")

	sim.SetQuota("default", "pods", 1)
	wantStatus(t, post(pod("b", nil)), 403, metav1.StatusReasonForbidden, "exceeded quota: tollgate, requested: pods=1, used: pods=1, limited: pods=1")
	wantStatus(t, post(pod("a", nil)), 403, metav1.StatusReasonForbidden, "exceeded quota") // before the name
	do(t, c, http.MethodPut, base+"pods/a/status", object{"metadata": object{"name": "a"}, "status": object{"phase": "Failed"}}, nil)
	do(t, c, http.MethodPost, base+"pods", pod("b", nil), nil) // what has ended does not count
}

func TestDeletes(t *testing.T) {
	t.Parallel()
	_, c := start(t, kubernetessim.Options{})
	var a corev1.Pod
	do(t, c, http.MethodPost, base+"pods", pod("a", nil), &a)
	wrong := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}
	wantStatus(t, c.Do(t.Context(), http.MethodDelete, base+"pods/a", wrong, nil), 409, metav1.StatusReasonConflict, "the UID in the precondition (another)")
	// Without a node it goes at once, with one when the node says so.
	do(t, c, http.MethodDelete, base+"pods/a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(a.UID))}, nil)
	wantStatus(t, c.Do(t.Context(), http.MethodGet, base+"pods/a", nil, nil), 404, metav1.StatusReasonNotFound, "")
	do(t, c, http.MethodPost, base+"pods", pod("a", nil), nil)
	bind := corev1.Binding{Target: corev1.ObjectReference{Name: "node-1"}}
	do(t, c, http.MethodPost, base+"pods/a/binding", bind, nil)
	wantStatus(t, c.Do(t.Context(), http.MethodPost, base+"pods/a/binding", bind, nil), 409, metav1.StatusReasonConflict, "already assigned")
	var first, second corev1.Pod
	do(t, c, http.MethodDelete, base+"pods/a", nil, nil)
	do(t, c, http.MethodGet, base+"pods/a", nil, &first)
	if first.DeletionTimestamp == nil || *first.DeletionGracePeriodSeconds != 30 {
		t.Errorf("deleting: %+v", first.ObjectMeta)
	}
	do(t, c, http.MethodDelete, base+"pods/a", nil, nil)
	do(t, c, http.MethodGet, base+"pods/a", nil, &second)
	if !second.DeletionTimestamp.Equal(first.DeletionTimestamp) || second.ResourceVersion != first.ResourceVersion {
		t.Errorf("a second delete has changed %v to %v", first.DeletionTimestamp, second.DeletionTimestamp)
	}
	zero := int64(0)
	do(t, c, http.MethodDelete, base+"pods/a", metav1.DeleteOptions{GracePeriodSeconds: &zero}, nil)
	wantStatus(t, c.Do(t.Context(), http.MethodDelete, base+"pods/a", nil, nil), 404, metav1.StatusReasonNotFound, "")
}

func TestPagesAreOfOneMoment(t *testing.T) {
	t.Parallel()
	sim, c := start(t, kubernetessim.Options{})
	for i := range 5 {
		do(t, c, http.MethodPost, base+"pods", pod(fmt.Sprintf("p%d", i), object{"even": fmt.Sprint(i%2 == 0)}), nil)
	}
	var l corev1.PodList
	do(t, c, http.MethodGet, base+"pods?labelSelector=even%3Dtrue", nil, &l)
	if len(l.Items) != 3 || l.Kind != "PodList" || l.ResourceVersion == "" {
		t.Errorf("listed %d of kind %q", len(l.Items), l.Kind)
	}
	do(t, c, http.MethodGet, base+"pods?limit=2", nil, &l)
	if len(l.Items) != 2 || *l.RemainingItemCount != 3 {
		t.Fatalf("page of %d, %v remain", len(l.Items), l.RemainingItemCount)
	}
	do(t, c, http.MethodDelete, base+"pods/p4", nil, nil)
	next := base + "pods?limit=9&continue=" + l.Continue
	l = corev1.PodList{}
	do(t, c, http.MethodGet, next, nil, &l)
	if len(l.Items) != 3 || l.Items[2].Name != "p4" {
		t.Errorf("the second page has %d", len(l.Items))
	}
	do(t, c, http.MethodGet, base+"pods?limit=2", nil, &l)
	sim.Compact()
	wantStatus(t, c.Do(t.Context(), http.MethodGet, base+"pods?limit=2&continue="+l.Continue, nil, nil), 410, metav1.StatusReasonExpired, "too old")
	wantStatus(t, c.Do(t.Context(), http.MethodGet, base+"pods?labelSelector=%21%21", nil, nil), 400, metav1.StatusReasonBadRequest, "")

	var m metav1.PartialObjectMetadataList
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+base+"pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil || m.Kind != "PartialObjectMetadataList" || len(m.Items) != 4 || m.Items[0].Name != "p0" {
		t.Errorf("metadata %+v, %v", m, err)
	}
}

type runtime map[string]string

func (r runtime) Start(_ context.Context, p *corev1.Pod) (netip.Addr, error) {
	r[p.Name] = "up"
	return netip.MustParseAddr("10.0.0.9"), nil
}
func (r runtime) Stop(p *corev1.Pod) { delete(r, p.Name) }

// What runs goes on after a restart of the API server, from its state.
func TestStateAndNode(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	sim, c := start(t, kubernetessim.Options{StateFile: file})
	up := runtime{}
	run := func(c *kubernetessim.Client, until func() bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		k := &kubernetessim.Kubelet{Client: c, Namespace: "default", Runtime: up, Node: "n", HostIP: "10.0.0.1"}
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		for !until() && ctx.Err() == nil {
			time.Sleep(2 * time.Millisecond)
		}
		if ctx.Err() != nil {
			t.Error("it does not happen")
		}
		cancel()
		<-done
	}
	running := func(c *kubernetessim.Client, name string) func() bool {
		return func() bool {
			var p corev1.Pod
			return c.Do(t.Context(), http.MethodGet, base+"pods/"+name, nil, &p) == nil && p.Status.Phase == corev1.PodRunning && p.Status.PodIP != ""
		}
	}
	do(t, c, http.MethodPost, base+"pods", pod("a", nil), nil)
	do(t, c, http.MethodPost, base+"secrets", object{"metadata": object{"name": "s"}, "data": object{"k": "dg=="}}, nil)
	do(t, c, http.MethodPost, base+"services", object{"metadata": object{"name": "v"}, "spec": object{"ports": []object{{"port": 80}}}}, nil)
	run(c, running(c, "a"))
	sim.Compact() // watches begin anew, too
	do(t, c, http.MethodPost, base+"pods", pod("b", nil), nil)
	run(c, running(c, "b"))

	clear(up)
	_, again := start(t, kubernetessim.Options{StateFile: file})
	var svc corev1.Service
	do(t, again, http.MethodGet, base+"services/v", nil, &svc)
	if svc.Spec.ClusterIP == "" {
		t.Errorf("the Service is %+v", svc.Spec)
	}
	do(t, again, http.MethodGet, base+"secrets/s", nil, nil)
	do(t, again, http.MethodDelete, base+"pods/b", nil, nil)
	gone := func() bool { return again.Do(t.Context(), http.MethodGet, base+"pods/b", nil, nil) != nil }
	run(again, gone)
	if len(up) != 1 || up["a"] != "up" {
		t.Errorf("after a restart runs %v, want a alone", up)
	}
}
