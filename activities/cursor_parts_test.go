package activities_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// parted is a source of which some parts cannot be read.
type parted struct {
	source.Source
	broken *[]source.Broken
}

func (p parted) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	page, err := p.Source.Next(ctx, c)
	page.Broken = *p.broken
	return page, err
}

func away(part string, class provider.Class) source.Broken {
	return source.Broken{Part: part, Err: provider.Wrap(class, source.OpNext, "cloud", "", errors.New("away"))}
}

// What can be read is delivered while a part cannot; the activity returns when that
// begins, changes and is over, and costs no history in between.
func TestBrokenPart(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 4}
	ids := feed(f, 9)
	var broken []source.Broken
	r := newReceiver()
	a := cursors(parted{memory.New("cloud", "acme", f), &broken}, r)
	reg := prometheus.NewRegistry()
	a.Metrics = metrics.NewCursors(reg)
	in := activities.ReadSourceInput{StreamRef: stream, Interval: api.Duration(30 * time.Second), ReturnBy: time.Now().Add(time.Hour)}
	read := func() (out activities.ReadSourceResult, waits bool) {
		t.Helper()
		out, _, err := attempt(t, a, in, nil)
		var app *temporal.ApplicationError
		if waits = errors.As(err, &app) && app.Type() == activities.ErrNothingNew; !waits && err != nil {
			t.Fatal(err)
		}
		if !waits {
			in.Cursor, in.Broken = out.Cursor, out.Broken
		}
		return out, waits
	}
	for _, step := range []struct {
		broken []source.Broken
		want   string // the parts that are said to be broken
		waits  bool
	}{
		{[]source.Broken{away("two", provider.Transient)}, "two", false},
		{[]source.Broken{away("two", provider.Transient)}, "", true},
		{[]source.Broken{away("two", provider.Permanent)}, "two", false},
		{[]source.Broken{away("one", provider.Transient), away("two", provider.Permanent)}, "one two", false},
		{[]source.Broken{away("one", provider.Transient), away("two", provider.Permanent)}, "", true},
		{nil, "", false},
		{nil, "", true},
	} {
		broken = step.broken
		out, waits := read()
		var said []string
		for _, b := range out.Broken {
			if said = append(said, b.Part); b.Class == "" || !strings.Contains(b.Message, "away") {
				t.Errorf("%+v lacks its class or message", b)
			}
		}
		if waits != step.waits || strings.Join(said, " ") != step.want || out.Stop != nil {
			t.Errorf("%v: broken %v, waits %v, stop %+v; want %q, %v", step.broken, said, waits, out.Stop, step.want, step.waits)
		}
		if n, err := testutil.GatherAndCount(reg, "tollgate_cursor_part_broken"); err != nil || n != len(step.broken) {
			t.Errorf("%d series of broken parts, %v; want %d", n, err, len(step.broken))
		}
	}
	if diff := cmp.Diff(r.ids(), ids); diff != "" {
		t.Errorf("received (-got +want):\n%s", diff)
	}
}

// A backfill is not done while a part of the source was not read.
func TestBackfillWaitsForPart(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 4}
	feed(f, 9)
	broken := []source.Broken{away("two", provider.Transient)}
	r := newReceiver()
	a := cursors(parted{memory.New("cloud", "acme", f), &broken}, r)
	in := activities.ReadSourceInput{StreamRef: stream, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}
	out, _, err := attempt(t, a, in, nil)
	if err != nil || out.Done || out.Stop == nil || out.Stop.Sink || !strings.HasPrefix(out.Stop.Message, "two: ") || out.Counts.Delivered != 9 || len(out.Broken) != 1 {
		t.Errorf("%+v, stop %+v, %v", out, out.Stop, err)
	}
	in.Cursor, broken = out.Cursor, nil
	if out, _, err = attempt(t, a, in, nil); err != nil || !out.Done || out.Stop != nil {
		t.Errorf("%+v, %v: want it done", out, err)
	}
}
