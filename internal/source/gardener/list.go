package gardener

import (
	"context"
	"fmt"
	"slices"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// labelStatus is the label in which Gardener sums the conditions of a shoot up.
const labelStatus = "shoot.gardener.cloud/status"

// What Existing.Info and Existing.Values have of a shoot.
const (
	infoProject        = "project"
	infoVersion        = "kubernetes_version"
	infoInfrastructure = "infrastructure"
	infoStatus         = "status"
	infoPurpose        = "purpose"
	infoSeed           = "seed"
	infoOperation      = "operation"
	infoOperationState = "operation_state"
	infoPoolType       = "machine_type/"
	valuePoolMinimum   = "worker_count/"
	valuePoolMaximum   = "worker_maximum/"
	valueWish          = "hibernation_wanted"
	valueFact          = "hibernated"
)

// statusUnknown is the status of a shoot that Gardener has not judged yet.
const statusUnknown = "unknown"

func exports() []source.Export {
	return []source.Export{{
		Type: event.Shoot, Prefix: "gardener_shoot", Identity: []string{infoProject, "name"},
		Families: []source.Family{
			source.InfoFamily(infoVersion, infoInfrastructure, "region", infoPurpose, infoSeed),
			source.EachValue("worker_count", "Worker nodes that were ordered at least for a pool of the shoot.", "pool", valuePoolMinimum),
			source.EachValue("worker_maximum", "Worker nodes that a pool of the shoot may have at most.", "pool", valuePoolMaximum),
			source.EachWord("worker_machine_type", "1 for the machine type of a pool of the shoot.", "pool", "type", infoPoolType),
			source.WordFamily("status", "1 for the status of the shoot: healthy, progressing, unhealthy or unknown.", infoStatus),
			source.ValueFamily(valueWish, "1 while the shoot is to hibernate, else 0."),
			source.ValueFamily(valueFact, "1 while the shoot hibernates, else 0. It may differ from what is wanted for hours."),
			optional(source.WordFamily("operation", "1 for what was done to the shoot last, or is being done.", infoOperation)),
			optional(source.WordFamily("operation_state", "1 for how far that has come.", infoOperationState)),
			source.CreatedFamily(),
			source.LeavingFamily(),
		},
	}}
}

func optional(f source.Family) source.Family {
	f.Optional = true
	return f
}

// List implements source.Lister.
func (s *Source) List(ctx context.Context) (source.Snapshot, error) {
	ctx = provider.ContextWithOp(ctx, source.OpList)
	out := source.Snapshot{At: s.now().UTC()}
	var found []source.Existing
	var namespaces []string
	_, err := s.each(ctx, "", func(sh *corev1beta1.Shoot) {
		found, namespaces = append(found, existing(sh)), append(namespaces, sh.Namespace)
	})
	if err != nil {
		return source.Snapshot{}, s.wrap(source.OpList, cause(ctx, err))
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(namespaces)))
	projects, err := s.projects.Names(ctx, distinct...)
	if err != nil {
		return source.Snapshot{}, s.wrap(source.OpList, cause(ctx, err))
	}
	for i, x := range found {
		project, ok := projects[namespaces[i]]
		if !ok {
			// Whose it is is not known, and it has no account.
			out.Unreadable = append(out.Unreadable, fmt.Sprintf("shoot %s/%s: the namespace belongs to no project", namespaces[i], x.Resource.Name))
			continue
		}
		x.Account, x.Info[infoProject] = gardener.Account(s.account, project), project
		out.Resources = append(out.Resources, x)
	}
	return out, nil
}

// existing is a shoot without its account.
func existing(sh *corev1beta1.Shoot) source.Existing {
	st := observe(sh)
	x := source.Existing{
		Resource: gardener.Resource(sh), CreatedAt: st.made, Coming: !st.created, Leaving: sh.DeletionTimestamp != nil,
		Size: st.size(), State: event.Active, Region: st.region,
		Info:   map[string]string{infoVersion: sh.Spec.Kubernetes.Version, infoInfrastructure: sh.Spec.Provider.Type, infoStatus: statusUnknown},
		Values: map[string]float64{valueWish: 0, valueFact: 0},
	}
	if l := sh.Labels[labelStatus]; l != "" {
		x.Info[infoStatus] = l
	}
	if p := sh.Spec.Purpose; p != nil {
		x.Info[infoPurpose] = string(*p)
	}
	if seed := sh.Spec.SeedName; seed != nil {
		x.Info[infoSeed] = *seed
	}
	if op := sh.Status.LastOperation; op != nil {
		x.Info[infoOperation], x.Info[infoOperationState] = string(op.Type), string(op.State)
	}
	if gardener.WantsHibernation(sh) {
		x.Values[valueWish] = 1
	}
	if st.hibernated {
		x.State, x.Values[valueFact] = event.Hibernated, 1
	}
	for _, w := range sh.Spec.Provider.Workers {
		x.Values[valuePoolMinimum+w.Name], x.Values[valuePoolMaximum+w.Name] = float64(w.Minimum), float64(w.Maximum)
		x.Info[infoPoolType+w.Name] = w.Machine.Type
	}
	return x
}
