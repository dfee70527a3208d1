package kubernetes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func decode(t *testing.T, text string) (options, error) {
	t.Helper()
	return decodeOptions(provider.Config{Name: "cluster", Decode: func(into any) error {
		d := yaml.NewDecoder(strings.NewReader(text))
		d.KnownFields(true)
		return d.Decode(into)
	}})
}

const least = "server: https://10.0.0.1:6443\ntoken: t\nnamespace: egress\n"

func TestConfigErrors(t *testing.T) {
	t.Setenv(envInCluster, "")
	t.Setenv(envKubeconfig, "")
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key":        {least + "colour: blue\n", "field colour not found"},
		"nothing":            {"namespace: egress\n", "kubeconfig: is required outside a cluster: a file, unless $KUBECONFIG names one"},
		"no namespace":       {"server: https://a\ntoken: t\n", `namespace: "" is not a name`},
		"both":               {least + "kubeconfig: /x\n", "server: goes with token and caFile, not with kubeconfig and context"},
		"no URL":             {"server: 10.0.0.1\ntoken: t\nnamespace: a\n", `server: "10.0.0.1" is no URL`},
		"password in URL":    {"server: https://u:p@a\ntoken: t\nnamespace: a\n", "server: must hold neither credentials nor a query"},
		"no token":           {"server: https://a\nnamespace: a\n", `token: "" is not a name`},
		"token alone":        {"token: t\nnamespace: a\n", "server: is required with token and caFile"},
		"image":              {least + "image: 'a b'\n", `image: "a b" is no image`},
		"image URL":          {least + "image: https://a/b\n", `image: "https://a/b" is no image`},
		"pull policy":        {least + "imagePullPolicy: Sometimes\n", `imagePullPolicy: "Sometimes": want one of Always, IfNotPresent, Never`},
		"pull secret":        {least + "imagePullSecrets: [A_b]\n", `imagePullSecrets[0]: "A_b"`},
		"env name":           {least + "env: {'a=b': c}\n", `env: "a=b"`},
		"our env":            {least + "env: {TOLLGATE_PORT: '1'}\n", "env: TOLLGATE_PORT is set by Tollgate"},
		"env from":           {least + "envFrom: ['']\n", `envFrom[0]: ""`},
		"relative path":      {least + "userData: {path: etc/x}\n", `"etc/x" is no absolute path`},
		"path twice":         {least + "userData: {path: /x}\nsecurity: {writablePaths: [/x]}\n", `"/x" is there twice`},
		"root user":          {least + "security: {runAsUser: 0}\n", "security.runAsUser: 0: want 1 to 2147483647"},
		"expose":             {least + "expose: everywhere\n", `expose: "everywhere": want one of podIP, hostPort, clusterIP, nodePort, loadBalancer`},
		"load balancer":      {least + "loadBalancer: {class: x}\n", "loadBalancer: is for expose: loadBalancer"},
		"source range":       {least + "expose: loadBalancer\nloadBalancer: {sourceRanges: [all]}\n", `loadBalancer.sourceRanges[0]: "all" is no network`},
		"quantity":           {least + "resources: {requests: {cpu: much}}\n", `resources.requests.cpu: "much" is no quantity`},
		"negative quantity":  {least + "sizes: {small: {limits: {memory: '-1'}}}\n", `sizes.small.limits.memory: "-1" is no quantity`},
		"size name":          {least + "sizes: {'a b': {}}\n", `sizes: "a b"`},
		"our label":          {least + "labels: {tollgate-uid: x}\n", `labels: "tollgate-uid" is set by Tollgate`},
		"label value":        {least + "labels: {a: 'x y'}\n", `labels.a: "x y"`},
		"annotation":         {least + "annotations: {'a b': x}\n", `annotations: "a b"`},
		"node selector":      {least + "nodeSelector: {a: 'x y'}\n", `nodeSelector.a: "x y"`},
		"toleration":         {least + "tolerations: [{effect: NoFun}]\n", `tolerations[0].effect: "NoFun"`},
		"toleration key":     {least + "tolerations: [{value: x}]\n", "tolerations[0].key: is required unless operator is Exists"},
		"runtime class":      {least + "runtimeClass: A_b\n", `runtimeClass: "A_b"`},
		"grace":              {least + "terminationGrace: 2h\n", "terminationGrace: 2h0m0s: want 1s to 1h0m0s"},
		"no grace":           {least + "terminationGrace: 0s\n", "terminationGrace: 0s: want 1s to 1h0m0s"},
		"half a second":      {least + "terminationGrace: 1500ms\n", "terminationGrace: 1.5s: want whole seconds"},
		"request over limit": {least + "resources: {requests: {memory: 1Gi}, limits: {memory: 512Mi}}\n", `resources.requests.memory: "1Gi": want at most the limit, "512Mi"`},
		"force":              {least + "forceDeleteAfter: -1s\n", "forceDeleteAfter: -1s: want 0s to 24h0m0s"},
		"call timeout":       {least + "callTimeout: 1ms\n", "callTimeout: 1ms: want 1s to 5m0s"},
		"context in cluster": {"context: a\nserver: https://a\ntoken: t\nnamespace: a\n", "server: goes with token and caFile"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := decode(t, tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	// All that is wrong is said, in the same order each time.
	_, one := decode(t, "expose: a\nimage: 'b c'\nnamespace: D\n")
	_, two := decode(t, "expose: a\nimage: 'b c'\nnamespace: D\n")
	if one == nil || two == nil || one.Error() != two.Error() || strings.Count(one.Error(), "\n") != 3 {
		t.Errorf("errors:\n%v\n%v", one, two)
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Setenv(envInCluster, "")
	t.Setenv(envKubeconfig, "")
	o, err := decode(t, least+"terminationGrace: 1s\n")
	if err != nil || o.Expose != ExposePodIP || o.grace != time.Second || o.CallTimeout != 30*time.Second || o.ForceDeleteAfter != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = decode(t, least); err != nil || o.grace != 30*time.Second {
		t.Errorf("grace %v, %v", o.grace, err)
	}
	t.Setenv(envKubeconfig, "/a/b")
	if o, err = decode(t, "namespace: egress\n"); err != nil || o.Kubeconfig != "/a/b" {
		t.Errorf("kubeconfig %q, %v", o.Kubeconfig, err)
	}
	t.Setenv(envKubeconfig, "/a/b:/c")
	if _, err = decode(t, "namespace: egress\n"); err == nil || !strings.Contains(err.Error(), `$KUBECONFIG names several files, "/a/b:/c": want one`) {
		t.Errorf("several files: %v", err)
	}
	t.Setenv(envInCluster, "10.0.0.1")
	if o, err = decode(t, "namespace: egress\n"); err != nil || o.Kubeconfig != "" {
		t.Errorf("in a cluster: kubeconfig %q, %v", o.Kubeconfig, err)
	}
	if _, err = decode(t, "namespace: egress\ncontext: c\n"); err == nil {
		t.Error("a context without a kubeconfig is taken")
	}
}

// Every setting is on the page, with its full name, and nothing else.
func TestPageHasEverySetting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("../../../docs/providers", TypeName+".md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Configuration\n")
	table, _, _ = strings.Cut(table, "\n### ")
	var got []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.Contains(cells[1], "`") {
			for _, name := range strings.Split(cells[1], ",") {
				got = append(got, strings.Trim(name, " `"))
			}
		}
	}
	want := []string{"kubeconfig", "context", "server", "token", "caFile", "namespace", "image", "imagePullPolicy", "imagePullSecrets", "command", "args",
		"env", "envFrom", "expose", "loadBalancer.class", "loadBalancer.annotations", "loadBalancer.sourceRanges", "userData.path", "auth.path",
		"resources.requests", "resources.limits", "sizes.<name>.requests", ".limits", "labels", "annotations", "nodeSelector", "tolerations[]",
		"runtimeClass", "priorityClass", "serviceAccount", "security.runAsUser", ".runAsGroup", "security.fsGroup", "security.writableRoot",
		"security.writablePaths", "terminationGrace", "forceDeleteAfter", "callTimeout"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +page):\n%s", diff)
	}
}
