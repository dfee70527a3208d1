package inventory_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// confirming is a source that can be asked about one thing.
type confirming struct {
	*memory.Source
	gone func(account, id string) (bool, error)
}

func (c confirming) Gone(_ context.Context, account, _ string, r event.Resource) (bool, error) {
	return c.gone(account, r.ID)
}

// What a listing lacks has ended only if the platform, asked for it, says that it is
// gone.
func TestEndsAreConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.acts.Source = func(name string) (source.Entry, bool) {
		s := confirming{memory.New(name, "acme", r.feed), func(account, id string) (bool, error) {
			if account != "acme" {
				t.Errorf("asked for %s of %q", id, account)
			}
			if id == "c" {
				return false, errors.New("the cell cannot be reached")
			}
			return id == "a", nil
		}}
		return source.Entry{Name: name, Type: memory.Type(r.feed), Account: "acme", Streams: []source.Stream{{Name: "thing", Source: s}}}, true
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		r.feed.Add(name, source.VerbCreate, 1)
	}
	r.wantEvents("the feed", "a/create 1", "b/create 1", "c/create 1", "d/create 1")
	for _, name := range []string{"a", "b", "c"} {
		r.feed.Vanish(name)
	}
	out := r.run("confirmed", api.InventoryInput{})
	if got, want := kinds(out), "missing_delete a repaired, missing_delete b waits, missing_delete c waits"; !strings.EqualFold(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	for _, d := range out.Differences {
		if why := map[string]string{"b": "still there", "c": "cell cannot be reached"}[d.Resource.ID]; !strings.Contains(d.Message, why) {
			t.Errorf("%s: %q, want %q", d.Resource.ID, d.Message, why)
		}
	}
	r.wantEvents("what is gone has ended", "a/create 1", "b/create 1", "c/create 1", "d/create 1", "a/delete 1 inventory")
}
