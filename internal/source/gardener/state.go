package gardener

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// state is what matters of a shoot at one resourceVersion.
type state struct {
	uid, namespace, name, region string
	version                      string // resourceVersion
	generation, observed         int64
	made                         time.Time // creationTimestamp
	// created: its creation has ended, at createdAt if it is known when.
	created   bool
	createdAt time.Time
	// hibernated is the fact. factAt is when the status was written last by what
	// works on the shoot; specAt when the worker pools were written last, at the
	// latest.
	hibernated     bool
	factAt, specAt time.Time
	pools          []pool // by name
	// endedAt is when a shoot that is gone was last seen to be changed.
	endedAt time.Time

	// asked: the spec says something about hibernation, be it that it is over.
	asked bool

	// unknown: nothing is known of what it was. reported is the size as it was
	// reported, if that is where this comes from, and account then its account.
	unknown  bool
	reported event.Size
	account  string
}

// pool is a worker pool as it was ordered.
type pool struct {
	name, machineType string
	count             int32
}

// observe reads a shoot.
func observe(s *corev1beta1.Shoot) state {
	st := state{
		uid: gardener.UID(s), namespace: s.Namespace, name: s.Name, region: s.Spec.Region, version: s.ResourceVersion,
		generation: s.Generation, observed: s.Status.ObservedGeneration, made: s.CreationTimestamp.UTC(),
		created: gardener.Created(s), hibernated: s.Status.IsHibernated,
		asked: s.Spec.Hibernation != nil,
	}
	for _, w := range s.Spec.Provider.Workers {
		st.pools = append(st.pools, pool{w.Name, w.Machine.Type, w.Minimum})
	}
	slices.SortFunc(st.pools, func(a, b pool) int { return strings.Compare(a.name, b.name) })
	var last time.Time
	for _, f := range s.ManagedFields {
		if f.Time == nil {
			continue
		}
		at := f.Time.UTC()
		if at.After(last) {
			last = at
		}
		if f.Subresource == "" && f.FieldsV1 != nil && bytes.Contains(f.FieldsV1.Raw, []byte(`"f:workers"`)) && at.After(st.specAt) {
			st.specAt = at
		}
	}
	if st.specAt.Before(st.made) {
		st.specAt = st.made
	}
	if op := s.Status.LastOperation; op != nil {
		st.factAt = op.LastUpdateTime.UTC()
		if op.Type == corev1beta1.LastOperationTypeCreate && op.State == corev1beta1.LastOperationStateSucceeded {
			st.createdAt = st.factAt
		}
		if op.Type == corev1beta1.LastOperationTypeDelete && op.State == corev1beta1.LastOperationStateSucceeded {
			st.endedAt = st.factAt
		}
	}
	if st.factAt.Before(st.made) {
		st.factAt = st.made
	}
	if st.endedAt.IsZero() {
		// Somebody took the finalizer away before the delete had succeeded.
		for _, at := range []time.Time{last, st.factAt, deletion(s)} {
			if at.After(st.endedAt) {
				st.endedAt = at
			}
		}
	}
	return st
}

func deletion(s *corev1beta1.Shoot) time.Time {
	if s.DeletionTimestamp == nil {
		return time.Time{}
	}
	return s.DeletionTimestamp.UTC()
}

// latest is when something is known to have happened to the shoot last, by the
// platform's clock.
func (s state) latest() time.Time {
	out := s.made
	for _, at := range []time.Time{s.createdAt, s.factAt, s.specAt} {
		if at.After(out) {
			out = at
		}
	}
	return out
}

// sequence orders the versions of all shoots.
func (s state) sequence() int64 {
	n, err := strconv.ParseInt(s.version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// size is the whole size.
func (s state) size() event.Size {
	if s.reported != nil {
		return s.reported
	}
	out := event.Size{}
	var total int64
	for _, p := range s.pools {
		total += int64(p.count)
		out[event.PoolWorkerCount(p.name)] = event.Int(p.count)
		out[event.PoolMachineType(p.name)] = event.Text(p.machineType)
	}
	out[event.WorkerCount] = event.Int(total)
	return out
}
