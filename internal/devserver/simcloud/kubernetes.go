package simcloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetessim"
)

const (
	// KubernetesName is the name of the simulator on the command line.
	KubernetesName = "kubernetes-sim"
	// KubernetesProvider is the name of the provider that it adds.
	KubernetesProvider = "kubernetes"
)

// kubernetesNetwork is where its Pods have their addresses.
var kubernetesNetwork = netip.MustParsePrefix("127.80.0.0/16")

const kubernetesNamespace = "tollgate-proxies"

// Kubernetes is a running simulator of a Kubernetes API server, with one node
// whose Pods are real forward proxies.
type Kubernetes struct {
	dir, addr string
	sim       *kubernetessim.Sim
	kubelet   *kubernetessim.Kubelet
	machines  *Machines
	server    *http.Server
	stop      context.CancelFunc
	stopped   chan struct{}
}

// StartKubernetes runs the simulator on a free port of loopback. dir keeps its
// token and its state: started again there, Pods that ran run again at their
// addresses.
func StartKubernetes(dir string, log *slog.Logger) (*Kubernetes, error) {
	fail := func(err error) (*Kubernetes, error) { return nil, fmt.Errorf("%s: %w", KubernetesName, err) }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	token, err := ensureToken(filepath.Join(dir, tokenFile))
	if err != nil {
		return fail(err)
	}
	log = log.With("component", KubernetesName)
	sim, err := kubernetessim.New(kubernetessim.Options{Token: token, Namespaces: []string{kubernetesNamespace}, StateFile: filepath.Join(dir, stateFile), Logger: log})
	if err != nil {
		return fail(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	k := &Kubernetes{dir: dir, addr: l.Addr().String(), sim: sim, machines: NewMachines(kubernetesNetwork, log), stopped: make(chan struct{})}
	k.kubelet = &kubernetessim.Kubelet{
		Client:    &kubernetessim.Client{URL: k.Endpoint(), Token: token, HTTP: &http.Client{Transport: &http.Transport{}}},
		Namespace: kubernetesNamespace, Runtime: PodRuntime(k.machines), Node: "node-1", HostIP: "127.0.0.1", Logger: log,
	}
	mux := http.NewServeMux()
	mux.Handle("/", sim)
	mux.HandleFunc("POST /_sim/quota", k.setQuota)
	mux.HandleFunc("POST /_sim/full", k.setFull)
	mux.HandleFunc("POST /_sim/evict", k.evict)
	k.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	go func() {
		if err := k.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("simulator ended", "error", err)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	go func() { defer close(k.stopped); k.kubelet.Run(ctx) }()
	return k, nil
}

// PodRuntime lets a Kubelet run each Pod as one of the machines: a real forward
// proxy at its container's port, 1024 or above. It is for one Kubelet.
func PodRuntime(m *Machines) kubernetessim.Runtime {
	return &podMachines{m: m, ids: map[string]int64{}}
}

// podMachines runs each Pod as a proxy at its container's port. It is used by the
// Kubelet's goroutine alone.
type podMachines struct {
	m   *Machines
	ids map[string]int64 // by uid
}

// machine is what stands for a Pod.
func (p *podMachines) machine(pod *corev1.Pod) hetznersim.Machine {
	uid := string(pod.UID)
	if p.ids[uid] == 0 {
		p.ids[uid] = int64(len(p.ids) + 1)
	}
	out := hetznersim.Machine{ID: p.ids[uid], Name: pod.Name}
	for _, c := range pod.Spec.Containers {
		for _, port := range c.Ports {
			out.OpenTCP = append(out.OpenTCP, fmt.Sprint(port.ContainerPort))
		}
	}
	out.Address, _ = netip.ParseAddr(pod.Status.PodIP)
	return out
}

// Start implements kubernetessim.Runtime.
func (p *podMachines) Start(ctx context.Context, pod *corev1.Pod) (netip.Addr, error) {
	m := p.machine(pod)
	if !m.Address.IsValid() {
		var err error
		if m.Address, err = p.m.Address(ctx, m); err != nil {
			return netip.Addr{}, err
		}
	}
	if err := p.m.Start(ctx, m); err != nil {
		return netip.Addr{}, errors.Join(err, p.m.Stop(ctx, m))
	}
	return m.Address, nil
}

// Stop implements kubernetessim.Runtime.
func (p *podMachines) Stop(pod *corev1.Pod) {
	_ = p.m.Stop(context.Background(), p.machine(pod)) // never fails
}

// Endpoint is the URL of its API server, AdminURL that of what tells it to fail.
func (k *Kubernetes) Endpoint() string { return "http://" + k.addr }

// AdminURL is the base URL of the paths by which the simulator itself is told
// what to do: quotas, room on the node, evictions.
func (k *Kubernetes) AdminURL() string { return "http://" + k.addr + "/_sim" }

// TokenFile holds the bearer token.
func (k *Kubernetes) TokenFile() string { return filepath.Join(k.dir, tokenFile) }

// Config is what a configuration needs to use it, as an overlay of
// config.Options.
func (k *Kubernetes) Config() []byte {
	return fmt.Appendf(nil, `providers:
  - name: %s
    type: kubernetes
    drift: {interval: 15s}
    kubernetes:
      server: %s
      token: kubernetes-sim-token
      namespace: %s
      image: proxy.example.org/simulated:1
      userData: {path: /etc/proxy/user-data}
      terminationGrace: 1s
secrets:
  kubernetes-sim-token: {file: %q}
`, KubernetesProvider, k.Endpoint(), kubernetesNamespace, k.TokenFile())
}

// read decodes the body of an order to the simulator.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func (k *Kubernetes) setQuota(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Resource string `json:"resource"`
		Limit    int64  `json:"limit"` // negative: none
	}
	if read(w, r, &in) {
		k.sim.SetQuota(kubernetesNamespace, in.Resource, in.Limit)
	}
}

func (k *Kubernetes) setFull(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Words string `json:"words"` // of the scheduler; empty: there is room
	}
	if !read(w, r, &in) {
		return
	}
	if in.Words == "" {
		k.kubelet.Full("")()
		return
	}
	k.kubelet.Full(in.Words)
}

func (k *Kubernetes) evict(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Pod string `json:"pod"`
	}
	if !read(w, r, &in) {
		return
	}
	path := "/api/v1/namespaces/" + kubernetesNamespace + "/pods/" + in.Pod
	var pod corev1.Pod
	err := k.kubelet.Client.Do(r.Context(), http.MethodGet, path, nil, &pod)
	if err == nil {
		pod.ResourceVersion = "" // whatever the node writes meanwhile
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
		err = k.kubelet.Client.Do(r.Context(), http.MethodPut, path+"/status", pod, nil)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// Close stops the simulator and its proxies, and keeps its state.
func (k *Kubernetes) Close(ctx context.Context) error {
	k.stop()
	<-k.stopped
	k.kubelet.Client.HTTP.CloseIdleConnections()
	err := k.server.Shutdown(ctx)
	k.machines.Close()
	return err
}
