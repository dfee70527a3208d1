package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// snapshots is a collector of gauges that were all taken at one moment and are
// dropped once they are too old.
type snapshots struct {
	mu  sync.Mutex
	now func() time.Time
	all map[snapshotKey]snapshot
}

type snapshotKey struct{ provider, part string }

type snapshot struct {
	until   time.Time
	metrics []prometheus.Metric
}

func newSnapshots() *snapshots {
	return &snapshots{now: time.Now, all: map[snapshotKey]snapshot{}}
}

func (s *snapshots) set(provider, part string, ms []prometheus.Metric, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[snapshotKey{provider, part}] = snapshot{s.now().Add(ttl), ms}
}

func (s *snapshots) forget(provider string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.all {
		if k.provider == provider {
			delete(s.all, k)
		}
	}
}

// Describe sends nothing: what there is depends on what was seen.
func (s *snapshots) Describe(chan<- *prometheus.Desc) {}

// Collect sends the snapshots that are fresh enough.
func (s *snapshots) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for k, snap := range s.all {
		if now.After(snap.until) {
			delete(s.all, k)
			continue
		}
		for _, m := range snap.metrics {
			ch <- m
		}
	}
}
