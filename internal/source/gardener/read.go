package gardener

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// reading is one call of Next.
type reading struct {
	s *Source
	position
	begun time.Time
	// shoots are those at Version, by uid. The map is shared until it is changed. It
	// is partial when it has only what was reported and what was shown since.
	shoots       map[string]state
	own, partial bool
	dropped      []string // uids
	found        []found
	out          source.Page
}

// found is a change of a shoot.
type found struct {
	shoot state
	change
}

// Next implements source.Source.
func (s *Source) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	p, err := s.decode(source.OpNext, c)
	if err != nil {
		return source.Page{}, err
	}
	ctx = provider.ContextWithOp(ctx, source.OpNext)
	r := &reading{s: s, position: p, begun: s.now().UTC()}
	if err := r.read(ctx); err != nil {
		return source.Page{}, s.wrap(source.OpNext, cause(ctx, err))
	}
	if err := r.finish(ctx); err != nil {
		return source.Page{}, s.wrap(source.OpNext, cause(ctx, err))
	}
	s.rights.given()
	return r.out, nil
}

// cause is the end of a context when that is why a call failed.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// errExpired: the API server no longer has the cursor's version.
var errExpired = errors.New("the resourceVersion is no longer there")

func (r *reading) read(ctx context.Context) error {
	if r.Version == "" {
		return r.relist(ctx)
	}
	newest, err := r.s.newest(ctx)
	if err != nil {
		return err
	}
	if older(newest, r.Version) {
		// The API server has gone back in time: it was restored from a backup.
		return r.relist(ctx)
	}
	err = r.remember(ctx)
	if errors.Is(err, errExpired) && r.s.open != nil {
		// A watch may reach further back than lists do: API servers keep the latest
		// changes of each kind for watches. What was reported is what there was.
		r.own, r.partial = true, true
		r.shoots, err = r.reported(ctx)
	}
	if err == nil {
		err = r.watch(ctx, newest)
	}
	if errors.Is(err, errExpired) {
		return r.relist(ctx)
	}
	return err
}

// newest is the resourceVersion that the API server has come to.
func (s *Source) newest(ctx context.Context) (string, error) {
	c, ctx, cancel, err := s.call(ctx)
	if err != nil {
		return "", err
	}
	defer cancel()
	l, err := c.Shoots(s.o.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	if !comparable(l.ResourceVersion) {
		return "", fmt.Errorf("the API server's resourceVersion %q cannot be compared", l.ResourceVersion)
	}
	return l.ResourceVersion, nil
}

// list reads all shoots, at version if that is not empty. Each page has to be
// there within the time of a call.
func (s *Source) list(ctx context.Context, version string) (shoots map[string]state, at string, err error) {
	shoots = map[string]state{}
	at, err = s.each(ctx, version, func(sh *corev1beta1.Shoot) { st := observe(sh); shoots[st.uid] = st })
	return shoots, at, err
}

func (s *Source) each(ctx context.Context, version string, f func(*corev1beta1.Shoot)) (at string, err error) {
	o := metav1.ListOptions{Limit: s.chunk}
	if version != "" {
		o.ResourceVersion, o.ResourceVersionMatch = version, metav1.ResourceVersionMatchExact
	}
	page := func(ctx context.Context, o metav1.ListOptions) (*corev1beta1.ShootList, error) {
		c, ctx, cancel, err := s.call(ctx)
		if err != nil {
			return nil, err
		}
		defer cancel()
		return c.Shoots(s.o.Namespace).List(ctx, o)
	}
	err = gardener.Each(ctx, page, o, func(l *corev1beta1.ShootList) error {
		at = l.ResourceVersion
		for i := range l.Items {
			f(&l.Items[i])
		}
		return nil
	})
	if err == nil && !comparable(at) {
		err = fmt.Errorf("the API server's resourceVersion %q cannot be compared", at)
	}
	return at, err
}

// remember has the shoots as they were at the cursor's version.
func (r *reading) remember(ctx context.Context) error {
	if shoots, ok := r.s.memory.get(r.Version); ok {
		r.shoots = shoots
		return nil
	}
	shoots, _, err := r.s.list(ctx, r.Version)
	switch {
	case gardener.IsExpired(err):
		return errExpired
	case err != nil:
		return err
	}
	r.shoots, r.own = shoots, true
	return nil
}

// set and drop change what there is.
func (r *reading) set(st state) {
	r.unshare()
	r.shoots[st.uid] = st
}

func (r *reading) drop(uid string) {
	r.unshare()
	delete(r.shoots, uid)
	r.dropped = append(r.dropped, uid)
}

func (r *reading) unshare() {
	if !r.own {
		r.shoots, r.own = maps.Clone(r.shoots), true
	}
}

// add takes in what happened to a shoot.
func (r *reading) add(st state, list []change) {
	for _, c := range list {
		r.found = append(r.found, found{st, c})
	}
}

// relist lists everything and compares it with what was known.
func (r *reading) relist(ctx context.Context) error {
	expired := r.Version != ""
	was, remembered := r.s.memory.get(r.Version)
	if r.s.open != nil {
		// More may have been reported than the cursor says. It is asked for first: what
		// comes up meanwhile is not taken for gone.
		var err error
		if was, err = r.reported(ctx); err != nil {
			return err
		}
		remembered = true
	}
	shoots, at, err := r.s.list(ctx, "")
	if err != nil {
		return err
	}
	open := r.Open
	r.shoots, r.own, r.partial, r.Version = shoots, true, false, at
	for _, st := range shoots {
		before, had := was[st.uid]
		prior := &before
		switch {
		case had:
		case remembered || !expired:
			prior = nil
		default:
			prior = &state{unknown: true}
		}
		list := changes(prior, st)
		if prior != nil {
			list = conclude(list, r.AsOf)
		}
		r.add(st, slices.DeleteFunc(list, func(c change) bool { return c.at.Before(r.Since) }))
	}
	for _, st := range was {
		if _, still := shoots[st.uid]; !still && st.created {
			// The platform's clock may be ahead of ours: an end comes after what was before.
			at := r.begun
			if last := st.latest(); last.After(at) {
				at = last
			}
			st.version = r.Version
			r.add(st, conclude([]change{ended(st, at)}, r.AsOf))
		}
	}
	for _, key := range open {
		if err := r.missed(ctx, key, was); err != nil {
			return err
		}
	}
	if expired && r.AsOf.Before(r.begun) {
		r.out.Gap = &source.Gap{From: r.AsOf, To: r.begun}
		r.s.log.WarnContext(ctx, "the API server no longer had the version of the cursor; everything was listed anew",
			"gap_from", r.AsOf, "gap_to", r.begun, "shoots", len(shoots), "changes", len(r.found))
	}
	r.out.CaughtUp = true
	return nil
}

// missed looks for a creation that had not ended. When it is neither there nor
// was reported, nobody knows what became of it.
func (r *reading) missed(ctx context.Context, key string, was map[string]state) error {
	uid, path, _ := strings.Cut(key, " ") // it is one that openKey made
	namespace, name, _ := strings.Cut(path, "/")
	if _, exists := r.shoots[uid]; exists || was[uid].created {
		return nil
	}
	project, err := r.s.projects.Name(ctx, namespace)
	if err != nil && !errors.Is(err, gardener.ErrNoProject) {
		return err
	}
	if r.s.known != nil && err == nil {
		res := event.Resource{Type: event.Shoot, ID: uid}
		known, err := r.s.known(ctx, event.Gardener, gardener.Account(r.s.account, project), []event.Resource{res})
		if _, told := known[res]; told || err != nil {
			return err
		}
	}
	ref := reference{source.VerbCreate, event.ChangeCreate, r.begun, project, namespace, name, uid}
	r.out.Rejected = append(r.out.Rejected, source.Rejection{Ref: ref.encode(), Reason: "the shoot is gone, and nobody saw its creation end"})
	return nil
}

// reported are the shoots that exist as far as was reported.
func (r *reading) reported(ctx context.Context) (map[string]state, error) {
	project := ""
	if r.s.o.Namespace != "" {
		var err error
		if project, err = r.s.projects.Name(ctx, r.s.o.Namespace); err != nil {
			return nil, err
		}
	}
	list, err := r.s.open(ctx, event.Gardener, event.Shoot)
	if err != nil {
		return nil, err
	}
	out := map[string]state{}
	for _, o := range list {
		p, ours := gardener.ProjectOf(r.s.account, o.Account)
		if !ours || project != "" && p != project {
			continue
		}
		st := state{uid: o.Resource.ID, name: o.Resource.Name, namespace: unknownNamespace, account: o.Account,
			created: true, hibernated: o.State == event.Hibernated, reported: o.Size, specAt: o.Since.UTC()}
		if st.reported == nil {
			st.reported = event.Size{}
		}
		out[st.uid] = st
	}
	return out, nil
}

// unknownNamespace stands in references for a namespace that nobody needs to know
// any more.
const unknownNamespace = "-"

// finish makes the page of what was found.
func (r *reading) finish(ctx context.Context) error {
	slices.SortStableFunc(r.found, func(a, b found) int { return a.at.Compare(b.at) })
	var namespaces []string
	for _, f := range r.found {
		if f.shoot.account == "" {
			namespaces = append(namespaces, f.shoot.namespace)
		}
	}
	projects, err := r.s.projects.Names(ctx, namespaces...)
	if err != nil {
		return err
	}
	for _, f := range r.found {
		project, ok := projects[f.shoot.namespace]
		if f.shoot.account != "" {
			project, ok = gardener.ProjectOf(r.s.account, f.shoot.account)
		}
		if !ok {
			ref := reference{f.verb, f.id, f.at, "", f.shoot.namespace, f.shoot.name, f.shoot.uid}
			r.out.Rejected = append(r.out.Rejected, source.Rejection{Ref: ref.encode(),
				Reason: fmt.Sprintf("the namespace %q belongs to no project", f.shoot.namespace)})
			continue
		}
		r.out.Items = append(r.out.Items, r.s.item(f.shoot, project, f.change))
	}
	r.pending()
	if r.out.CaughtUp {
		r.AsOf, r.out.UpTo = r.begun, r.begun
	}
	if !r.partial {
		r.s.memory.put(r.Version, r.shoots)
	}
	r.out.Next = source.EncodeCursor(r.position)
	return nil
}

// pending notes the creations that have not ended.
func (r *reading) pending() {
	open := map[string]bool{}
	if r.partial {
		for _, key := range r.Open {
			open[key] = true
		}
	}
	for _, st := range r.shoots {
		open[openKey(st)] = !st.created
	}
	for _, uid := range r.dropped {
		maps.DeleteFunc(open, func(key string, _ bool) bool { return strings.HasPrefix(key, uid+" ") })
	}
	r.Open = nil
	for key, is := range open {
		if is {
			r.Open = append(r.Open, key)
		}
	}
	r.out.Pending = len(r.Open)
	slices.Sort(r.Open)
	r.Open = r.Open[:min(len(r.Open), maxOpen)]
}
