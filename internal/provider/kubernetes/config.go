package kubernetes

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Options is the block "kubernetes" of a provider's configuration.
type Options struct {
	// Kubeconfig is a kubeconfig file, read again when it changes. Default: the
	// service account of the Pod that the worker runs in, and outside a cluster
	// the file that the environment variable KUBECONFIG names.
	Kubeconfig string `yaml:"kubeconfig"`
	// Context is a context of the kubeconfig, required when it has several: its
	// current one is whatever somebody has worked with last.
	Context string `yaml:"context"`
	// Server is the URL of the API server, instead of a kubeconfig. It goes with
	// Token, the name of the secret that holds a bearer token, and CAFile, the
	// certificates that the server is verified with (default: the system's).
	Server string `yaml:"server"`
	Token  string `yaml:"token"`
	CAFile string `yaml:"caFile"`

	// Namespace is where the Pods are. Required; give Tollgate one of its own.
	Namespace string `yaml:"namespace"`
	// Image is the proxy's image for specs that name none.
	Image string `yaml:"image"`
	// ImagePullPolicy is Always, IfNotPresent or Never. Default: the cluster's.
	ImagePullPolicy  string   `yaml:"imagePullPolicy"`
	ImagePullSecrets []string `yaml:"imagePullSecrets"`
	// Command and Args replace those of the image. $(TOLLGATE_PORT) in them is the
	// port that the proxy has to listen on.
	Command []string `yaml:"command"`
	Args    []string `yaml:"args"`
	// Env are variables of the container. They are readable by whoever may read
	// Pods; EnvFrom names existing Secrets of the namespace for what is secret.
	Env     map[string]string `yaml:"env"`
	EnvFrom []string          `yaml:"envFrom"`

	// Expose says where clients connect: podIP, hostPort, clusterIP, nodePort or
	// loadBalancer. Default podIP.
	Expose string `yaml:"expose"`
	// LoadBalancer is for Expose loadBalancer.
	LoadBalancer LoadBalancer `yaml:"loadBalancer"`

	// UserData says where the guest finds the spec's cloud-init. Without a path,
	// specs with cloud-init are refused.
	UserData Mount `yaml:"userData"`
	// Auth says where the guest finds the files "username" and "password" of the
	// spec's credentials, beside its environment.
	Auth Mount `yaml:"auth"`

	// Resources are those of specs without a machine type; Sizes are the machine
	// types that specs can name.
	Resources Resources            `yaml:"resources"`
	Sizes     map[string]Resources `yaml:"sizes"`

	Labels         map[string]string `yaml:"labels"`
	Annotations    map[string]string `yaml:"annotations"`
	NodeSelector   map[string]string `yaml:"nodeSelector"`
	Tolerations    []Toleration      `yaml:"tolerations"`
	RuntimeClass   string            `yaml:"runtimeClass"`
	PriorityClass  string            `yaml:"priorityClass"`
	ServiceAccount string            `yaml:"serviceAccount"`
	Security       Security          `yaml:"security"`

	// TerminationGrace is how long a proxy may finish its connections after it was
	// told to end. Default 30s.
	TerminationGrace *time.Duration `yaml:"terminationGrace"`
	// ForceDeleteAfter is how long after its grace a Pod that is being deleted and
	// whose node does not answer is removed without the node's word. 0, the
	// default, is never.
	ForceDeleteAfter time.Duration `yaml:"forceDeleteAfter"`
	// CallTimeout bounds each request. Default 30s.
	CallTimeout time.Duration `yaml:"callTimeout"`
}

// LoadBalancer shapes the Services of type LoadBalancer.
type LoadBalancer struct {
	Class        string            `yaml:"class"`
	Annotations  map[string]string `yaml:"annotations"`
	SourceRanges []string          `yaml:"sourceRanges"`
}

// Mount is a place in the container.
type Mount struct {
	Path string `yaml:"path"`
}

// Resources are quantities by resource name, "cpu: 100m".
type Resources struct {
	Requests map[string]string `yaml:"requests"`
	Limits   map[string]string `yaml:"limits"`
}

// Toleration lets Pods onto tainted nodes.
type Toleration struct {
	Key               string `yaml:"key"`
	Operator          string `yaml:"operator"`
	Value             string `yaml:"value"`
	Effect            string `yaml:"effect"`
	TolerationSeconds *int64 `yaml:"tolerationSeconds"`
}

// Security is what may be chosen within the Pod security standard "restricted".
type Security struct {
	// RunAsUser and RunAsGroup are the ids of the process. Default: the image's,
	// which must not be root.
	RunAsUser  *int64 `yaml:"runAsUser"`
	RunAsGroup *int64 `yaml:"runAsGroup"`
	// FSGroup is the group that may read mounted files. Default 65532.
	FSGroup *int64 `yaml:"fsGroup"`
	// WritableRoot makes the root file system writable. WritablePaths are folders
	// that are, beside a root that is not.
	WritableRoot  bool     `yaml:"writableRoot"`
	WritablePaths []string `yaml:"writablePaths"`
}

// Ways to expose a Pod.
const (
	ExposePodIP        = "podIP"
	ExposeHostPort     = "hostPort"
	ExposeClusterIP    = "clusterIP"
	ExposeNodePort     = "nodePort"
	ExposeLoadBalancer = "loadBalancer"
)

var exposes = []string{ExposePodIP, ExposeHostPort, ExposeClusterIP, ExposeNodePort, ExposeLoadBalancer}

const (
	envKubeconfig  = "KUBECONFIG"
	envInCluster   = "KUBERNETES_SERVICE_HOST"
	defaultFSGroup = 65532
	defaultGrace   = 30 * time.Second
	defaultTimeout = 30 * time.Second
)

// options are checked Options with their defaults.
type options struct {
	Options
	grace     time.Duration
	resources corev1.ResourceRequirements
	sizes     map[string]corev1.ResourceRequirements
}

func decodeOptions(cfg provider.Config) (options, error) {
	var o options
	if cfg.Decode != nil {
		if err := cfg.Decode(&o.Options); err != nil {
			return options{}, err
		}
	}
	var c problems
	o.checkAccess(&c)
	o.checkContainer(&c)
	o.checkExpose(&c)
	o.checkPlaces(&c)
	o.checkTimes(&c)
	return o, c.join()
}

func (o *options) checkAccess(c *problems) {
	c.name("namespace", o.Namespace)
	switch {
	case o.Server != "" && (o.Kubeconfig != "" || o.Context != ""):
		c.bad("server: goes with token and caFile, not with kubeconfig and context")
	case o.Server != "":
		u, err := url.Parse(o.Server)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			c.bad("server: %q is no URL: want one such as https://10.0.0.1:6443", o.Server)
		} else if u.User != nil || u.RawQuery != "" {
			c.bad("server: must hold neither credentials nor a query: use token")
		}
		c.name("token", o.Token)
	case o.Token != "" || o.CAFile != "":
		c.bad("server: is required with token and caFile")
	case o.Kubeconfig == "" && os.Getenv(envInCluster) == "":
		switch o.Kubeconfig = os.Getenv(envKubeconfig); {
		case o.Kubeconfig == "":
			c.bad("kubeconfig: is required outside a cluster: a file, unless $%s names one", envKubeconfig)
		case strings.ContainsRune(o.Kubeconfig, os.PathListSeparator):
			c.bad("kubeconfig: $%s names several files, %q: want one", envKubeconfig, o.Kubeconfig)
		}
	case o.Kubeconfig == "" && o.Context != "":
		c.bad("kubeconfig: is required with context")
	}
}

func (o *options) checkContainer(c *problems) {
	if o.Image != "" {
		c.image("image", o.Image)
	}
	c.oneOf("imagePullPolicy", o.ImagePullPolicy, "", string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever))
	for i, s := range o.ImagePullSecrets {
		c.objectName(fmt.Sprintf("imagePullSecrets[%d]", i), s)
	}
	for i, s := range o.EnvFrom {
		c.objectName(fmt.Sprintf("envFrom[%d]", i), s)
	}
	for k := range o.Env {
		c.envName("env", k)
		if slices.Contains(ourEnv, k) {
			c.bad("env: %s is set by Tollgate", k)
		}
	}
	paths := map[string]string{}
	for _, p := range slices.Concat([]string{o.UserData.Path, o.Auth.Path}, o.Security.WritablePaths) {
		switch {
		case p == "":
			continue
		case !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.Contains(p, ":"):
			c.bad("userData.path, auth.path, security.writablePaths: %q is no absolute path without ':' in its shortest form", p)
		case paths[p] != "":
			c.bad("userData.path, auth.path, security.writablePaths: %q is there twice", p)
		}
		paths[p] = p
	}
	for _, f := range []struct {
		name string
		id   *int64
		min  int64
	}{{"security.runAsUser", o.Security.RunAsUser, 1}, {"security.runAsGroup", o.Security.RunAsGroup, 0}, {"security.fsGroup", o.Security.FSGroup, 0}} {
		if f.id != nil && (*f.id < f.min || *f.id > 1<<31-1) {
			c.bad("%s: %d: want %d to %d", f.name, *f.id, f.min, 1<<31-1)
		}
	}
}

func (o *options) checkExpose(c *problems) {
	if o.Expose == "" {
		o.Expose = ExposePodIP
	}
	c.oneOf("expose", o.Expose, exposes...)
	lb := o.LoadBalancer
	if o.Expose != ExposeLoadBalancer && (lb.Class != "" || len(lb.Annotations) > 0 || len(lb.SourceRanges) > 0) {
		c.bad("loadBalancer: is for expose: %s", ExposeLoadBalancer)
	}
	for i, r := range lb.SourceRanges {
		if _, err := netip.ParsePrefix(r); err != nil {
			c.bad("loadBalancer.sourceRanges[%d]: %q is no network: want one such as 203.0.113.0/24", i, r)
		}
	}
	c.annotations("loadBalancer.annotations", lb.Annotations)
}

func (o *options) checkPlaces(c *problems) {
	o.resources = c.resources("resources", o.Resources)
	o.sizes = map[string]corev1.ResourceRequirements{}
	for name, r := range o.Sizes {
		c.labelValue("sizes", name)
		o.sizes[name] = c.resources("sizes."+name, r)
	}
	c.labels("labels", o.Labels)
	c.annotations("annotations", o.Annotations)
	c.labels("nodeSelector", o.NodeSelector)
	for i, t := range o.Tolerations {
		f := fmt.Sprintf("tolerations[%d]", i)
		c.oneOf(f+".operator", t.Operator, "", string(corev1.TolerationOpEqual), string(corev1.TolerationOpExists))
		c.oneOf(f+".effect", t.Effect, "", string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute))
		if t.Key == "" && t.Operator != string(corev1.TolerationOpExists) {
			c.bad("%s.key: is required unless operator is Exists", f)
		}
	}
	for field, name := range map[string]string{"runtimeClass": o.RuntimeClass, "priorityClass": o.PriorityClass, "serviceAccount": o.ServiceAccount} {
		if name != "" {
			c.objectName(field, name)
		}
	}
}

func (o *options) checkTimes(c *problems) {
	o.grace = defaultGrace
	if o.TerminationGrace != nil {
		o.grace = *o.TerminationGrace
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = defaultTimeout
	}
	// A grace of nothing takes a Pod out of the API before its node has ended it,
	// and the API knows whole seconds.
	c.between("terminationGrace", o.grace, time.Second, time.Hour)
	if o.grace > time.Second && o.grace%time.Second != 0 {
		c.bad("terminationGrace: %v: want whole seconds", o.grace)
	}
	c.between("forceDeleteAfter", o.ForceDeleteAfter, 0, 24*time.Hour)
	c.between("callTimeout", o.CallTimeout, time.Second, 5*time.Minute)
}
