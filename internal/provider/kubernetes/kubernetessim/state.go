package kubernetessim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// saved is the state file.
type saved struct {
	Version    uint64            `json:"version"`
	ClusterIPs int               `json:"clusterIPs"`
	Pods       []*corev1.Pod     `json:"pods"`
	Secrets    []*corev1.Secret  `json:"secrets"`
	Services   []*corev1.Service `json:"services"`
}

func (s *Sim) load() error {
	b, err := os.ReadFile(s.opts.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var st saved
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.opts.StateFile, err)
	}
	s.version, s.clusterIPs = max(st.Version, 1), st.ClusterIPs
	for _, o := range st.Pods {
		s.objects[key{"pods", o.Namespace, o.Name}] = o
	}
	for _, o := range st.Secrets {
		s.objects[key{"secrets", o.Namespace, o.Name}] = o
	}
	for _, o := range st.Services {
		s.objects[key{"services", o.Namespace, o.Name}] = o
	}
	return nil
}

// save writes the objects to the state file, if there is one. mu is held.
func (s *Sim) save() {
	if s.opts.StateFile == "" {
		return
	}
	st := saved{Version: s.version, ClusterIPs: s.clusterIPs}
	for _, o := range s.objects {
		switch o := o.(type) {
		case *corev1.Pod:
			st.Pods = append(st.Pods, o)
		case *corev1.Secret:
			st.Secrets = append(st.Secrets, o)
		case *corev1.Service:
			st.Services = append(st.Services, o)
		}
	}
	b, err := json.MarshalIndent(st, "", "  ")
	if err == nil {
		tmp := s.opts.StateFile + ".new"
		if err = os.WriteFile(tmp, append(b, '\n'), 0o600); err == nil {
			err = os.Rename(tmp, s.opts.StateFile)
		}
	}
	if err != nil {
		s.log.Error("the state is not kept", "error", err)
	}
}
