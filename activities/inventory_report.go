package activities

import (
	"context"
	"slices"

	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// report adds a stream and its differences to the result and the metrics.
func (r *repair) report(st *api.InventoryStream, found []api.Difference) {
	r.add(st, found)
	c := metrics.Comparison{At: r.a.now(), Found: map[string]int{}, Repaired: map[string]int{}}
	for k, n := range st.Found {
		c.Found[string(k)] = n
	}
	for k, n := range st.Repaired {
		c.Repaired[string(k)] = n
	}
	for _, d := range found {
		if d.Open() {
			c.Open++
		}
	}
	r.a.Metrics.Compared(r.in.Source, st.Stream, c, compareTTL)
}

func (r *repair) add(st *api.InventoryStream, found []api.Difference) {
	st.Found, st.Repaired = map[api.DifferenceKind]int{}, map[api.DifferenceKind]int{}
	for _, d := range found {
		st.Found[d.Kind]++
		if !d.Open() {
			st.Repaired[d.Kind]++
		}
		r.out.Actions[d.Action]++
	}
	r.out.Streams = append(r.out.Streams, *st)
	r.out.Count += len(found)
	// Those that are left come first: they are remembered by the next inventory.
	slices.SortStableFunc(found, func(x, y api.Difference) int { return rank(x) - rank(y) })
	r.out.Differences = append(r.out.Differences, found...)
	slices.SortStableFunc(r.out.Differences, func(x, y api.Difference) int { return rank(x) - rank(y) })
	if len(r.out.Differences) > api.MaxDifferences {
		r.out.Differences = r.out.Differences[:api.MaxDifferences]
	}
}

func rank(d api.Difference) int {
	if d.Open() {
		return 0
	}
	return 1
}

// extras has what a source compares besides compared.
func (r *repair) extras(ctx context.Context) error {
	if r.a.Extras == nil {
		return nil
	}
	for _, x := range r.a.Extras(r.in.Source) {
		in := inventory.ExtraInput{Source: r.in.Source, Sink: r.in.Sink, Platform: r.e.Type.Platform(), DryRun: r.in.DryRun, Now: r.a.now()}
		for _, l := range r.a.Store.All() {
			if l.Source == r.in.Source {
				in.Streams = append(in.Streams, l)
			}
		}
		got, err := x.Compare(ctx, in)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		st := api.InventoryStream{Stream: x.Name(), Listed: got.Listed, Reported: got.Reported, ListedAt: in.Now}
		if err != nil {
			st.Error = sink.Reason(err.Error())
			r.out.Streams = append(r.out.Streams, st)
			continue
		}
		for i := range got.Differences {
			got.Differences[i].Stream = x.Name()
		}
		r.report(&st, got.Differences)
	}
	return nil
}
