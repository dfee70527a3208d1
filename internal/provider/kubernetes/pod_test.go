package kubernetes

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func request() provider.CreateRequest {
	return provider.CreateRequest{Name: "proxy-aaaaaaaaaaaaaaaa", Port: 3128,
		Marks: provider.Marks{UID: "u1", Installation: "acme", Namespace: "default", Proxy: "egress-1", SpecHash: "h1"}}
}

// What goes over the wire for the least of requests, to the byte.
func TestPlainPod(t *testing.T) {
	t.Parallel()
	pl, err := testProvider(t, nil).planFor(request())
	if err != nil {
		t.Fatal(err)
	}
	if pl.secret != nil || pl.service != nil {
		t.Errorf("a Secret or a Service: %+v", pl)
	}
	got, err := json.Marshal(pl.pod)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	err = yaml.Unmarshal([]byte(`
apiVersion: v1
kind: Pod
metadata:
  name: proxy-aaaaaaaaaaaaaaaa
  namespace: egress
  labels:
    app.kubernetes.io/managed-by: tollgate
    app.kubernetes.io/name: tollgate-proxy
    tollgate-expose: podIP
    tollgate-installation: acme
    tollgate-instance: proxy-aaaaaaaaaaaaaaaa
    tollgate-managed: "yes"
    tollgate-namespace: default
    tollgate-parts: none
    tollgate-proxy: egress-1
    tollgate-spec-hash: h1
    tollgate-uid: u1
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  restartPolicy: Always
  terminationGracePeriodSeconds: 30
  securityContext:
    fsGroup: 65532
    runAsNonRoot: true
    seccompProfile: {type: RuntimeDefault}
  containers:
  - name: proxy
    image: example.org/proxy:1
    env: [{name: TOLLGATE_PORT, value: "3128"}]
    ports: [{containerPort: 3128, name: proxy, protocol: TCP}]
    resources: {}
    securityContext:
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL]}
      privileged: false
      readOnlyRootFilesystem: true
      runAsNonRoot: true
    terminationMessagePolicy: FallbackToLogsOnError
status: {}
`), &doc)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if json.Unmarshal(got, &g) != nil || json.Unmarshal(want, &w) != nil {
		t.Fatal("no JSON")
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("Pod (-want +got):\n%s", diff)
	}
}

func TestPodOfEverything(t *testing.T) {
	t.Parallel()
	id := int64(13)
	p := testProvider(t, func(o *Options) {
		o.Args = []string{"--port=$(TOLLGATE_PORT)"}
		o.Env, o.EnvFrom = map[string]string{"B": "2", "A": "1"}, []string{"more"}
		o.ImagePullSecrets, o.ImagePullPolicy = []string{"registry"}, "Always"
		o.UserData.Path, o.Auth.Path = "/etc/squid/squid.conf", "/etc/auth"
		o.Sizes = map[string]Resources{"small": {Limits: map[string]string{"memory": "64Mi"}}}
		o.NodeSelector = map[string]string{"pool": "egress", corev1.LabelTopologyRegion: "eu"}
		o.Tolerations = []Toleration{{Key: "egress", Operator: "Exists", Effect: "NoSchedule"}}
		o.RuntimeClass, o.PriorityClass, o.ServiceAccount = "gvisor", "low", "egress"
		o.Security = Security{RunAsUser: &id, RunAsGroup: &id, FSGroup: &id, WritableRoot: true, WritablePaths: []string{"/var/run"}}
		o.Labels, o.Annotations = map[string]string{"team": "net"}, map[string]string{"note": "any text: 1"}
		o.Expose = ExposeLoadBalancer
		o.LoadBalancer.Class = "internal"
	})
	req := request()
	req.Port = 80
	req.CloudInit = provider.NewSensitive([]byte("http_access"))
	req.Auth = &provider.BasicAuth{Username: "anna", Password: provider.NewSensitive([]byte("sesame"))}
	req.Placement = provider.Placement{Region: "eu", Zone: "eu-1", MachineType: "small", Image: "example.org/other:2"}
	pl, err := p.planFor(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(pl.pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"image":"example.org/other:2"`, `"args":["--port=$(TOLLGATE_PORT)"]`, `"envFrom":[{"secretRef":{"name":"more"}}]`,
		`{"name":"A","value":"1"},{"name":"B","value":"2"}`, `{"name":"TOLLGATE_USER_DATA","value":"/etc/squid/squid.conf"}`,
		`"limits":{"memory":"64Mi"}`, `"nodeSelector":{"pool":"egress","topology.kubernetes.io/region":"eu","topology.kubernetes.io/zone":"eu-1"}`,
		`"sysctls":[{"name":"net.ipv4.ip_unprivileged_port_start","value":"0"}]`, `"runtimeClassName":"gvisor"`, `"priorityClassName":"low"`,
		`"serviceAccountName":"egress"`, `"runAsUser":13`, `"fsGroup":13`, `"readOnlyRootFilesystem":false`, `{"name":"writable-0","emptyDir":{}}`,
		`"imagePullSecrets":[{"name":"registry"}]`, `"tolerations":[{"key":"egress","operator":"Exists","effect":"NoSchedule"}]`,
		`"tollgate-parts":"sv"`, `"tollgate-size":"small"`, `"team":"net"`, `"note":"any text: 1"`, `"defaultMode":288`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the Pod lacks %s:\n%s", want, text)
		}
	}
	for _, secret := range []string{"http_access", "sesame", "anna"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the Pod holds %s", secret)
		}
	}
	if *pl.service.Spec.LoadBalancerClass != "internal" || pl.service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		t.Errorf("the Service is %+v", pl.service.Spec)
	}
	if !*pl.secret.Immutable || string(pl.secret.Data[KeyUserData]) != "http_access" {
		t.Errorf("the Secret is %+v", pl.secret.Data)
	}
}

func TestRequestsThatCanNeverBe(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(*provider.CreateRequest, *Options){
		`port: 0: want 1 to 65535`:                                               func(r *provider.CreateRequest, _ *Options) { r.Port = 0 },
		`cloudInit: provider "cluster" has no place for it`:                      func(r *provider.CreateRequest, _ *Options) { r.CloudInit = provider.NewSensitive([]byte("x")) },
		`placement.image: is required`:                                           func(_ *provider.CreateRequest, o *Options) { o.Image = "" },
		`placement.image: "a b" is no image`:                                     func(r *provider.CreateRequest, _ *Options) { r.Placement.Image = "a b" },
		`placement.machineType: "xl": the provider's configuration has no sizes`: func(r *provider.CreateRequest, _ *Options) { r.Placement.MachineType = "xl" },
		`placement.machineType: "xl": want one of l, m`: func(r *provider.CreateRequest, o *Options) {
			r.Placement.MachineType, o.Sizes = "xl", map[string]Resources{"m": {}, "l": {}}
		},
		`placement.zone: "a b"`: func(r *provider.CreateRequest, _ *Options) { r.Placement.Zone = "a b" },
		`placement.region: "us": the provider's nodeSelector allows "eu" only`: func(r *provider.CreateRequest, o *Options) {
			r.Placement.Region, o.NodeSelector = "us", map[string]string{corev1.LabelTopologyRegion: "eu"}
		},
		`name: "A" is not a name`: func(r *provider.CreateRequest, _ *Options) { r.Name = "A" },
		`cloudInit: 1048577 bytes with the credentials are too many: a Secret holds 1048576`: func(r *provider.CreateRequest, o *Options) {
			r.CloudInit, o.UserData.Path = provider.NewSensitive(make([]byte, 1<<20+1)), "/x"
		},
	} {
		req := request()
		p := testProvider(t, func(o *Options) { change(&req, o) })
		_, err := p.Create(t.Context(), req) // makes no request: nobody is there
		if provider.ClassOf(err) != provider.Permanent || provider.ReasonOf(err) != provider.ReasonInvalidSpec || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("very-long-name-", 10)
	for _, m := range []provider.Marks{
		{UID: "u1", Installation: "acme", Namespace: "default", Proxy: "egress-1", SpecHash: "h1"},
		{UID: long, Installation: "acme", Namespace: "with space", Proxy: "-edge-", SpecHash: "sha256-0123"},
		{Installation: "acme"},
	} {
		var meta metav1.ObjectMeta
		writeMarks(&meta, m)
		for k, v := range meta.Labels {
			var c problems
			c.labelValue(k, v)
			if err := c.join(); err != nil {
				t.Error(err)
			}
		}
		if got, managed := MarksOf(meta.Labels, meta.Annotations); !managed || got != m {
			t.Errorf("wrote %+v, read %+v, %v", m, got, managed)
		}
		// A selector finds by the same value.
		sel := selectorOf(provider.Selector{UID: m.UID, Installation: m.Installation})
		if m.UID != "" && !strings.Contains(sel, "tollgate-uid="+meta.Labels[provider.LabelUID]) {
			t.Errorf("selector %q for %q", sel, meta.Labels)
		}
	}
	if m, managed := MarksOf(map[string]string{provider.LabelUID: "u"}, nil); managed || m != (provider.Marks{}) {
		t.Errorf("without the managed mark: %+v", m)
	}
	// An annotation that somebody has changed says nothing.
	forged := map[string]string{provider.LabelManaged: "yes", provider.LabelUID: encode(long)}
	if m, _ := MarksOf(forged, map[string]string{provider.LabelUID: "mine"}); m.UID == "mine" {
		t.Error("an annotation counts although the label is not its hash")
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	p := testProvider(t, nil)
	for _, ps := range []parts{{}, {secret: true}, {service: true}, {true, true}} {
		key := instanceKey{namespace: "egress", name: "proxy-a", uid: "0d0e-1", parts: ps}
		if got, err := p.parseID(provider.OpGet, key.id()); err != nil || got != key {
			t.Errorf("%s: %+v, %v", key.id(), got, err)
		}
	}
	for _, id := range []provider.InstanceID{"", "kubernetes", "kubernetes/a/b/c", "kubernetes/a/b/c/x", "kubernetes/a/b/c/none/d", "hetzner/a/b/c/none",
		"kubernetes/A/b/c/none", "kubernetes/a/../c/none", "kubernetes/a/b//none", "kubernetes/a/b/c d/none"} {
		_, err := p.parseID(provider.OpGet, id)
		if !errors.Is(err, provider.Permanent) || provider.ReasonOf(err) != provider.ReasonMalformedID {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// What is said of a Pod ends up in texts that have to be UTF-8.
func TestLongReasonsAreText(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: strings.Repeat("x", n) + strings.Repeat("\u2014", maxWhy)}}}}
		if why := whyPending(pod); !utf8.ValidString(why) || len(why) > maxWhy || len(why) < maxWhy-3 {
			t.Errorf("%d bytes: %q", len(why), why)
		}
	}
}
