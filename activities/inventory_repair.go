package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"

	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// repairTries is how often a delivery is tried before the sink counts as down.
const repairTries = 3

// refInventory is the reference of what no entry of the feed says.
const refInventory source.Ref = "inventory"

// RepairInventory is the second look, and delivers the events that repair what
// both looks saw and the feed will not tell. Done again, it delivers the same ids.
func (a *Inventory) RepairInventory(ctx context.Context, in RepairInventoryInput) (RepairInventoryResult, error) {
	e, _, err := a.source(in.Source, in.Sink)
	if err != nil {
		return RepairInventoryResult{}, err
	}
	r := &repair{a: a, in: in, e: e, out: RepairInventoryResult{Actions: map[api.DifferenceAction]int{}}}
	if activity.HasHeartbeatDetails(ctx) {
		// What an attempt before has repaired is no difference any more.
		if activity.GetHeartbeatDetails(ctx, &r.done) != nil {
			r.done = nil
		}
	}
	r.beat = heartbeat(ctx, r.done)
	defer r.beat.stop()
	for _, first := range in.Streams {
		steps, st, err := r.plan(ctx, first)
		if err != nil {
			if again := a.tryAgain(ctx, err); again != nil {
				return RepairInventoryResult{}, again
			}
			st.Error = sink.Reason(err.Error())
			r.out.Streams = append(r.out.Streams, st)
			continue
		}
		before := slices.Clone(r.done)
		if err := r.deliver(ctx, steps); err != nil {
			return RepairInventoryResult{}, toTemporal(ctx, err)
		}
		if r.note != "" {
			st.Note, r.note = strings.TrimPrefix(st.Note+"; "+r.note, "; "), ""
		}
		r.report(&st, append(differences(steps), missed(before, first.Stream, steps)...))
	}
	if err := r.extras(ctx); err != nil {
		return RepairInventoryResult{}, toTemporal(ctx, err)
	}
	return r.out, nil
}

// repair is one RepairInventory.
type repair struct {
	a   *Inventory
	in  RepairInventoryInput
	e   source.Entry
	out RepairInventoryResult
	// done is what this attempt and those before have repaired.
	done []api.Difference
	beat *beat
	// note is what went wrong beside the delivery.
	note string
}

// plan makes the second look at a stream and plans.
func (r *repair) plan(ctx context.Context, first LookedStream) ([]inventory.Step, api.InventoryStream, error) {
	a := r.a
	st := first.InventoryStream
	from, ok := r.e.Stream(first.Stream)
	l, lists := from.(source.Lister)
	if !ok || !lists {
		return nil, st, errors.New("the stream is gone")
	}
	// How far the feed is read is asked before what was reported: all that it had
	// told by then is among it.
	feed := a.feed(ctx, r.in.Source, first.Stream)
	look, again, err := a.look(ctx, r.e, first.Stream, l, r.in.Sink)
	if err != nil {
		return nil, st, err
	}
	again.ListedAt = st.ListedAt
	st = again
	st.ReadUpTo = feed.UpTo
	key := inventory.StreamKey{Source: r.in.Source, Stream: first.Stream}
	in := inventory.Input{
		Stream: streamOf(r.e, first.Stream), First: inventory.Moment{At: first.At, Until: first.Until, Platform: first.Platform}, Seen: unpacked(first.Seen), Look: look,
		Feed: feed, LastSeen: a.Store.LastSeen(key), FirstSeen: map[inventory.SeenKey]time.Time{}, MaxEnds: r.in.MaxEnds,
	}
	for _, d := range r.in.Before {
		if d.Stream == first.Stream {
			in.FirstSeen[inventory.SeenKey{Kind: d.Kind, Key: inventory.Key{Account: d.Account, Type: d.Type, ID: d.ID}}] = d.FirstSeen
		}
	}
	if receiver, ok := a.Receiver(r.in.Sink); ok && look.Reported != nil {
		var unreported []inventory.Key
		for _, x := range look.Snapshot.Resources {
			if k := inventory.KeyOf(x.Account, x.Resource); !hasKey(look.Reported, k) {
				unreported = append(unreported, k)
			}
		}
		if in.Ended, err = receiver.Ended(ctx, in.Stream.Platform, unreported); err != nil {
			return nil, st, fmt.Errorf("sink %s: %w", r.in.Sink, err)
		}
	}
	steps := inventory.Plan(in)
	return steps, st, confirm(ctx, l, steps)
}

// confirmAtOnce is how many resources are looked for at the same time.
const confirmAtOnce = 8

// confirm has the platform say of each resource that is to end that it is gone, where
// it can be asked. Its error means that the activity was cut off.
func confirm(ctx context.Context, l source.Lister, steps []inventory.Step) error {
	c, ok := l.(source.Confirmer)
	if !ok {
		return nil
	}
	var g errgroup.Group
	g.SetLimit(confirmAtOnce)
	for i := range steps {
		s := &steps[i]
		if s.Kind != api.MissingDelete || s.Action != "" || len(s.Events) == 0 {
			continue
		}
		g.Go(func() error {
			gone, err := c.Gone(ctx, s.Account, s.Events[0].Data.Region, s.Resource)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				s.Action, s.Message, s.Events = api.DifferenceWaits, "the listing lacks it, and nobody can say whether it is gone: "+sink.Reason(err.Error()), nil
			case !gone:
				s.Action, s.Message, s.Events = api.DifferenceWaits, "the listing lacks it, and it is still there", nil
			}
			return nil
		})
	}
	return g.Wait()
}

func hasKey[V any](m map[inventory.Key]V, k inventory.Key) bool { _, ok := m[k]; return ok }

// feed asks the cursor of a stream how far it has delivered. What it has heartbeated
// is newer than what it has told its workflow.
func (a *Inventory) feed(ctx context.Context, sourceName, stream string) inventory.Feed {
	ctx, cancel := context.WithTimeout(ctx, 2*temporalTimeout)
	defer cancel()
	id := workflows.CursorID(sourceName, stream)
	d, err := a.Temporal.DescribeWorkflow(ctx, id, "")
	if notFound := new(serviceerror.NotFound); errors.As(err, &notFound) {
		return inventory.Feed{Why: "cursor " + sourceName + "/" + stream + " was never started"}
	}
	var st api.Cursor
	if err == nil {
		if s := d.RawResponse.GetWorkflowExecutionInfo().GetStatus(); s != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return inventory.Feed{Why: "cursor " + sourceName + "/" + stream + " does not run"}
		}
		var v interface{ Get(any) error }
		if v, err = a.Temporal.QueryWorkflow(ctx, id, "", workflows.QueryStatus); err == nil {
			err = v.Get(&st)
		}
	}
	if err != nil {
		return inventory.Feed{Why: "its cursor cannot be asked: " + sink.Reason(err.Error())}
	}
	f := inventory.Feed{UpTo: st.Status.CaughtUpTo, Pending: st.Status.Pending}
	switch st.Status.Phase {
	case api.CursorCaughtUp, api.CursorReading:
	default:
		f.Why = fmt.Sprintf("the cursor is %s: %s", st.Status.Phase, st.Status.Message)
	}
	if b := st.Status.Backfill; b != nil && b.Done.IsZero() {
		return f // what is heartbeated may be the backfill's
	}
	for _, p := range d.RawResponse.GetPendingActivities() {
		var left ReadSourceResult
		if p.GetActivityType().GetName() != "ReadSource" || p.GetHeartbeatDetails() == nil ||
			a.Converter.FromPayloads(p.GetHeartbeatDetails(), &left) != nil {
			continue
		}
		if left.UpTo.After(f.UpTo) {
			f.UpTo, f.Pending = left.UpTo, left.Pending
		}
	}
	return f
}

// deliver delivers the events of the steps that have any, and notes in each what
// became of them. Its error means that the activity was cut off.
func (r *repair) deliver(ctx context.Context, steps []inventory.Step) error {
	var todo []int
	for i := range steps {
		switch s := &steps[i]; {
		case s.Action != "":
		case r.in.DryRun:
			s.Action = api.DifferenceWouldRepair
		default:
			todo = append(todo, i)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	to, ok, err := r.a.Sink(r.in.Sink)
	if err != nil || !ok {
		return final(ErrSinkNotConfigured, fmt.Sprintf("sink: no sink %q is configured", r.in.Sink))
	}
	for len(todo) > 0 {
		n := min(len(todo), deliverAtOnce)
		if err := r.batch(ctx, to, steps, todo[:n]); err != nil {
			return err
		}
		for _, i := range todo[:n] {
			if d := steps[i].Difference; !d.Open() && len(r.done) < api.MaxDifferences {
				r.done = append(r.done, d)
			}
		}
		r.beat.set(r.done)
		todo = todo[n:]
	}
	return nil
}

// batch delivers the events of some steps.
func (r *repair) batch(ctx context.Context, to sink.Sink, steps []inventory.Step, some []int) error {
	var events []event.Event
	var of []int
	for _, i := range some {
		for _, e := range steps[i].Events {
			events, of = append(events, e), append(of, i)
		}
	}
	results := make([]sink.Result, len(events))
	var failed error
	for try := 1; try <= repairTries; try++ {
		var left []int
		for j := range results {
			if !results[j].Outcome.Done() {
				left = append(left, j)
			}
		}
		if len(left) == 0 {
			break
		}
		if try > 1 {
			if err := wait(ctx, max(time.Duration(try)*time.Second, min(fault.RetryAfter(failed), 10*time.Second))); err != nil {
				return err
			}
		}
		send := make([]event.Event, len(left))
		for k, j := range left {
			send[k] = events[j]
		}
		dctx, cancel := context.WithTimeout(ctx, deliverTimeout)
		got, err := to.Deliver(dctx, send)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failed = err
		for k := range got {
			if k < len(left) {
				results[left[k]] = got[k]
			}
		}
	}
	var items []source.Item
	for j, e := range events {
		s := &steps[of[j]]
		switch res := results[j]; res.Outcome {
		case sink.Accepted:
			r.out.Delivered++
			if s.Action == "" || s.Action == api.DifferenceKnown {
				s.Action = api.DifferenceRepaired
			}
		case sink.Duplicate:
			r.out.Duplicates++
			if s.Action == "" {
				s.Action = api.DifferenceKnown
			}
		case sink.Rejected:
			s.Action, s.Message = api.DifferenceRefused, sink.Reason(res.Reason)
			continue
		default:
			s.Action, s.Message = api.DifferenceFailed, "the sink did not take it"
			if failed != nil {
				s.Message = sink.Reason(failed.Error())
			}
			continue
		}
		items = append(items, source.Item{Event: e, Ref: refInventory})
	}
	return r.follow(ctx, items)
}

// follow tells those who act on events beside the sink. Their failure is theirs to
// repair: an Extra finds it.
func (r *repair) follow(ctx context.Context, items []source.Item) error {
	if r.a.Followers == nil || len(items) == 0 {
		return nil
	}
	for _, f := range r.a.Followers(r.in.Source) {
		if err := f.Follow(ctx, r.in.Source, items); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.note = "what follows the source: " + sink.Reason(err.Error())
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func differences(steps []inventory.Step) []api.Difference {
	out := make([]api.Difference, len(steps))
	for i, s := range steps {
		out[i] = s.Difference
	}
	return out
}

// missed are what an attempt before has repaired of a stream.
func missed(before []api.Difference, stream string, steps []inventory.Step) (out []api.Difference) {
	for _, d := range before {
		if d.Stream == stream && !slices.ContainsFunc(steps, func(s inventory.Step) bool { return s.EventID == d.EventID }) {
			out = append(out, d)
		}
	}
	return out
}
