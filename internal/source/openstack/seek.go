package openstack

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Seek implements source.Source. What was unfinished at t is shown again when it
// is done; a volume that took longer than two hours to make is not found.
func (s *Source) Seek(_ context.Context, t time.Time) (source.Cursor, error) {
	if t = t.UTC(); t.Before(time.Unix(1, 0)) {
		return source.EncodeCursor(position{Version: positionVersion, Kind: string(s.kind.Type)}), nil
	}
	return source.EncodeCursor(position{Version: positionVersion, Kind: string(s.kind.Type), Since: t.Add(-longest)}), nil
}

// longest is how long a thing is made at the most.
const longest = 2 * time.Hour

// Derive implements source.Source.
func (s *Source) Derive(ctx context.Context, ref source.Ref) ([]source.Item, error) {
	f := strings.Split(string(ref), "/")
	bad := func() error {
		return source.BadCursor(source.OpDerive, s.name, fmt.Errorf("reference %q: want <region>/<id> and a change", ref))
	}
	if len(f) < 2 || len(f) > 3 {
		return nil, bad()
	}
	name, err := url.PathUnescape(f[0])
	if err != nil || f[1] == "" || strings.ContainsAny(f[1], "?#%") {
		return nil, bad()
	}
	ctx = provider.ContextWithOp(ctx, source.OpDerive)
	var out source.Page
	r, err := s.reading(ctx, name, &place{}, &out)
	if err != nil {
		return nil, s.wrap(ctx, source.OpDerive, err)
	}
	r.w, r.all = &walk{}, true
	if err := s.kind.derive(ctx, r, f[1]); err != nil {
		return nil, s.wrap(ctx, source.OpDerive, err)
	}
	if len(f) == 3 {
		out.Items = slices.DeleteFunc(out.Items, func(i source.Item) bool { return i.Event.Data.Change != f[2] })
	}
	if len(out.Items) == 0 {
		return nil, provider.Wrap(provider.NotFound, source.OpDerive, s.name, "", fmt.Errorf("%s no longer shows this change", f[1]))
	}
	return out.Items, nil
}
