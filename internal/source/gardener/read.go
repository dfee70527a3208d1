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
	// shoots are those at Version, by uid. The map is shared until it is changed.
	shoots map[string]state
	own    bool
	found  []found
	out    source.Page
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
	if !remembered && r.s.open != nil {
		// What was reported is asked for first: what comes up meanwhile is not taken
		// for gone.
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
	r.shoots, r.own, r.Version = shoots, true, at
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
			r.add(st, conclude([]change{ended(st, r.begun)}, r.AsOf))
		}
	}
	for _, key := range open {
		if !r.exists(key) {
			r.reject(key, "the shoot is gone, and nobody saw its creation end")
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

// exists reports whether an unfinished creation is still there.
func (r *reading) exists(key string) bool {
	for _, st := range r.shoots {
		if openKey(st) == key {
			return true
		}
	}
	return false
}

func (r *reading) reject(key, reason string) {
	uid, path, _ := strings.Cut(key, " ") // it is one that openKey made
	namespace, name, _ := strings.Cut(path, "/")
	ref := reference{source.VerbCreate, event.ChangeCreate, r.begun, "", namespace, name, uid}
	r.out.Rejected = append(r.out.Rejected, source.Rejection{Ref: ref.encode(), Reason: reason})
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
			created: true, hibernated: o.State == event.Hibernated, reported: o.Size}
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
	r.Open = nil
	for _, st := range r.shoots {
		if st.created {
			continue
		}
		r.out.Pending++
		r.Open = append(r.Open, openKey(st))
	}
	slices.Sort(r.Open)
	r.Open = r.Open[:min(len(r.Open), maxOpen)]
	if r.out.CaughtUp {
		r.AsOf, r.out.UpTo = r.begun, r.begun
	}
	r.s.memory.put(r.Version, r.shoots)
	r.out.Next = source.EncodeCursor(r.position)
	return nil
}
