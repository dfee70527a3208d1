package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// ContainerName is the name of the one container of a Pod.
const ContainerName = "proxy"

// Variables that the container gets.
const (
	envPort     = "TOLLGATE_PORT"
	envUserData = "TOLLGATE_USER_DATA"
	envUsername = "TOLLGATE_PROXY_USERNAME"
	envPassword = "TOLLGATE_PROXY_PASSWORD" //nolint:gosec // the name of a variable
)

var ourEnv = []string{envPort, envUserData, envUsername, envPassword}

// Keys of the Secret.
const (
	KeyUserData = "user-data"
	keyUsername = "username"
	keyPassword = "password"
)

const (
	labelSize     = "tollgate-size"
	volumeSecret  = "tollgate"
	sysctlPorts   = "net.ipv4.ip_unprivileged_port_start"
	firstFreePort = 1024
)

// plan is what a create makes.
type plan struct {
	pod     *corev1.Pod
	secret  *corev1.Secret  // nil for none
	service *corev1.Service // nil for none
}

// planFor checks a request, before any call, and says what it makes.
func (p *Provider) planFor(req provider.CreateRequest) (plan, error) {
	if err := p.checkRequest(req); err != nil {
		return plan{}, err
	}
	res, err := p.resourcesFor(req)
	if err != nil {
		return plan{}, err
	}
	nodes, err := p.nodesFor(req)
	if err != nil {
		return plan{}, err
	}
	pl := plan{pod: p.podFor(req, res, nodes), secret: p.secretFor(req), service: p.serviceFor(req)}
	pl.pod.Labels[labelParts] = partsOf(pl).String()
	return pl, nil
}

func (p *Provider) checkRequest(req provider.CreateRequest) error {
	image := cmp.Or(req.Placement.Image, p.opt.Image)
	switch {
	case req.Port < 1 || req.Port > 65535:
		return p.invalidSpec(req.Name, "port: %d: want 1 to 65535", req.Port)
	case req.CloudInit.Len() > 0 && p.opt.UserData.Path == "":
		return p.invalidSpec(req.Name, "cloudInit: provider %q has no place for it: set userData.path in its configuration, or leave cloudInit out", p.name)
	case image == "":
		return p.invalidSpec(req.Name, "placement.image: is required: the provider's configuration names no image")
	}
	if n := secretSize(req); n > corev1.MaxSecretSize {
		return p.invalidSpec(req.Name, "cloudInit: %d bytes with the credentials are too many: a Secret holds %d", n, corev1.MaxSecretSize)
	}
	if err := checkImage(image); err != nil {
		return p.invalidSpec(req.Name, "placement.image: %w", err)
	}
	if err := provider.ValidateName("name", req.Name); err != nil {
		return p.invalidSpec(req.Name, "%w", err)
	}
	return nil
}

func (p *Provider) resourcesFor(req provider.CreateRequest) (corev1.ResourceRequirements, error) {
	size := req.Placement.MachineType
	if size == "" {
		return p.opt.resources, nil
	}
	if r, ok := p.opt.sizes[size]; ok {
		return r, nil
	}
	known := slices.Sorted(maps.Keys(p.opt.sizes))
	if len(known) == 0 {
		return corev1.ResourceRequirements{}, p.invalidSpec(req.Name, "placement.machineType: %q: the provider's configuration has no sizes", size)
	}
	return corev1.ResourceRequirements{}, p.invalidSpec(req.Name, "placement.machineType: %q: want one of %s", size, strings.Join(known, ", "))
}

// nodesFor is the node selector: the configuration's, and what the placement
// adds.
func (p *Provider) nodesFor(req provider.CreateRequest) (map[string]string, error) {
	nodes := maps.Clone(p.opt.NodeSelector)
	if nodes == nil {
		nodes = map[string]string{}
	}
	for _, f := range []struct{ field, label, value string }{
		{"placement.region", corev1.LabelTopologyRegion, req.Placement.Region},
		{"placement.zone", corev1.LabelTopologyZone, req.Placement.Zone},
	} {
		if f.value == "" {
			continue
		}
		if wrong := validation.IsValidLabelValue(f.value); len(wrong) > 0 {
			return nil, p.invalidSpec(req.Name, "%s: %q: %s", f.field, f.value, strings.Join(wrong, "; "))
		}
		if have, ok := nodes[f.label]; ok && have != f.value {
			return nil, p.invalidSpec(req.Name, "%s: %q: the provider's nodeSelector allows %q only", f.field, f.value, have)
		}
		nodes[f.label] = f.value
	}
	return nodes, nil
}

// metaFor are the name and the marks of everything that an instance consists of.
func (p *Provider) metaFor(req provider.CreateRequest) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name: req.Name, Namespace: p.opt.Namespace, Labels: maps.Clone(p.opt.Labels), Annotations: maps.Clone(p.opt.Annotations),
	}
	writeMarks(&meta, req.Marks)
	meta.Labels[labelInstance] = req.Name
	meta.Labels[labelApp], meta.Labels[labelManager] = "tollgate-proxy", "tollgate"
	return meta
}

func (p *Provider) podFor(req provider.CreateRequest, res corev1.ResourceRequirements, nodes map[string]string) *corev1.Pod {
	meta := p.metaFor(req)
	meta.Labels[labelExpose] = p.opt.Expose
	if size := req.Placement.MachineType; size != "" {
		meta.Labels[labelSize] = size
	}
	volumes, mounts := p.volumesFor(req)
	spec := corev1.PodSpec{
		Containers:                    []corev1.Container{p.containerFor(req, res, mounts)},
		Volumes:                       volumes,
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: ptr(int64(p.opt.grace.Seconds())),
		// The proxy serves strangers: it gets no way to the API server.
		AutomountServiceAccountToken: ptr(false),
		EnableServiceLinks:           ptr(false),
		ServiceAccountName:           p.opt.ServiceAccount,
		PriorityClassName:            p.opt.PriorityClass,
		NodeSelector:                 nodes,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr(true), RunAsUser: p.opt.Security.RunAsUser, RunAsGroup: p.opt.Security.RunAsGroup,
			FSGroup: p.opt.Security.FSGroup, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if spec.SecurityContext.FSGroup == nil {
		spec.SecurityContext.FSGroup = ptr(int64(defaultFSGroup))
	}
	if req.Port < firstFreePort {
		spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: sysctlPorts, Value: "0"}}
	}
	if p.opt.RuntimeClass != "" {
		spec.RuntimeClassName = ptr(p.opt.RuntimeClass)
	}
	for _, name := range p.opt.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	for _, t := range p.opt.Tolerations {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOperator(t.Operator),
			Value: t.Value, Effect: corev1.TaintEffect(t.Effect), TolerationSeconds: t.TolerationSeconds})
	}
	return &corev1.Pod{TypeMeta: typeMeta(kindPod), ObjectMeta: meta, Spec: spec}
}

func (p *Provider) containerFor(req provider.CreateRequest, res corev1.ResourceRequirements, mounts []corev1.VolumeMount) corev1.Container {
	c := corev1.Container{
		Name: ContainerName, Image: cmp.Or(req.Placement.Image, p.opt.Image), ImagePullPolicy: corev1.PullPolicy(p.opt.ImagePullPolicy),
		Command: p.opt.Command, Args: p.opt.Args, Env: p.envFor(req), Resources: res, VolumeMounts: mounts,
		Ports: []corev1.ContainerPort{{Name: "proxy", ContainerPort: int32(req.Port), Protocol: corev1.ProtocolTCP}},
		// Why a proxy ended is asked for by people, and lost with the Pod otherwise.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr(false), Privileged: ptr(false), RunAsNonRoot: ptr(true),
			ReadOnlyRootFilesystem: ptr(!p.opt.Security.WritableRoot),
			Capabilities:           &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if p.opt.Expose == ExposeHostPort {
		c.Ports[0].HostPort = int32(req.Port)
	}
	for _, name := range p.opt.EnvFrom {
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
	}
	return c
}

func (p *Provider) envFor(req provider.CreateRequest) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: envPort, Value: strconv.Itoa(req.Port)}}
	if req.CloudInit.Len() > 0 {
		env = append(env, corev1.EnvVar{Name: envUserData, Value: p.opt.UserData.Path})
	}
	if req.Auth != nil {
		for _, v := range []struct{ name, key string }{{envUsername, keyUsername}, {envPassword, keyPassword}} {
			env = append(env, corev1.EnvVar{Name: v.name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: req.Name}, Key: v.key}}})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.opt.Env)) {
		env = append(env, corev1.EnvVar{Name: k, Value: p.opt.Env[k]})
	}
	return env
}

// volumesFor mounts the Secret, whole, even if only the environment refers to
// it: a missing volume holds a Pod back until it is there, a missing variable
// fails its start.
func (p *Provider) volumesFor(req provider.CreateRequest) (volumes []corev1.Volume, mounts []corev1.VolumeMount) {
	if hasSecret(req) {
		volumes = append(volumes, corev1.Volume{Name: volumeSecret, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: req.Name, DefaultMode: ptr(int32(0o440))}}})
	}
	if req.CloudInit.Len() > 0 {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeSecret, MountPath: p.opt.UserData.Path, SubPath: KeyUserData, ReadOnly: true})
	}
	if req.Auth != nil && p.opt.Auth.Path != "" {
		for _, key := range []string{keyUsername, keyPassword} {
			mounts = append(mounts, corev1.VolumeMount{Name: volumeSecret, MountPath: p.opt.Auth.Path + "/" + key, SubPath: key, ReadOnly: true})
		}
	}
	for i, path := range p.opt.Security.WritablePaths {
		name := fmt.Sprintf("writable-%d", i)
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: path})
	}
	return volumes, mounts
}

func ptr[T any](v T) *T { return &v }
