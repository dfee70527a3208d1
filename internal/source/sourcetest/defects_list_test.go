package sourcetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// paged reads a listing as pages of the platform's size, each of them a listing of
// its own, so that what changes in between moves the pages.
func paged(m *mutant, ctx context.Context) (out source.Snapshot, err error) {
	size := m.b.PageSize(nil)
	for from := 0; ; from += size {
		s, err := m.Source.(source.Lister).List(ctx)
		if err != nil {
			return source.Snapshot{}, err
		}
		if from == 0 {
			out.At = s.At
		}
		if from >= len(s.Resources) {
			return out, nil
		}
		out.Resources = append(out.Resources, s.Resources[from:min(from+size, len(s.Resources))]...)
	}
}

func listDefects() []defect {
	return []defect{
		{"SC-21", "only the first page is listed", func(m *mutant) {
			m.editList(func(s *source.Snapshot) { s.Resources = s.Resources[:min(len(s.Resources), m.b.PageSize(nil))] })
		}, false},
		{"SC-21", "the last entry is there twice", func(m *mutant) {
			m.editList(func(s *source.Snapshot) {
				if n := len(s.Resources); n > 0 {
					s.Resources = append(s.Resources, s.Resources[n-1])
				}
			})
		}, false},
		{"SC-21", "the account is the source's name", func(m *mutant) {
			m.editList(func(s *source.Snapshot) {
				for i := range s.Resources {
					s.Resources[i].Account = m.opts.Name
				}
			})
		}, false},
		{"SC-21", "what is gone stays listed", func(m *mutant) {
			var before []source.Existing
			m.editList(func(s *source.Snapshot) {
				for _, x := range before {
					if !slices.ContainsFunc(s.Resources, func(y source.Existing) bool { return y.Resource.ID == x.Resource.ID }) {
						s.Resources = append(s.Resources, x)
					}
				}
				before = slices.Clone(s.Resources)
			})
		}, false},
		{"SC-21", "the listing says that it began tomorrow", func(m *mutant) {
			m.editList(func(s *source.Snapshot) { s.At = s.At.Add(24 * time.Hour) })
		}, true},
		{"SC-22", "what cannot be read is left out", func(m *mutant) {
			m.list = func(ctx context.Context) (source.Snapshot, error) {
				s, err := m.Source.(source.Lister).List(ctx)
				if err != nil && provider.ClassOf(err) == provider.Transient {
					return source.Snapshot{At: time.Now()}, nil
				}
				return s, err
			}
		}, true},
		{"SC-22", "what was read is given beside the error", func(m *mutant) {
			var before []source.Existing
			m.list = func(ctx context.Context) (source.Snapshot, error) {
				s, err := m.Source.(source.Lister).List(ctx)
				if err != nil {
					s.Resources = before
					if before == nil {
						s.Resources = []source.Existing{{Account: "kit", Resource: event.Resource{Type: "thing", ID: "t1"}}}
					}
				}
				return s, err
			}
		}, true},
		{"SC-23", "pages by number", func(m *mutant) {
			m.list = func(ctx context.Context) (source.Snapshot, error) { return paged(m, ctx) }
		}, false},
		{"SC-24", "sizes in another unit", func(m *mutant) {
			m.editList(func(s *source.Snapshot) {
				for i := range s.Resources {
					if _, ok := s.Resources[i].Size["units"]; ok {
						s.Resources[i].Size = event.Size{"units": event.Int(1024)}
					}
				}
			})
		}, true},
		{"SC-24", "listed by name", func(m *mutant) {
			m.editList(func(s *source.Snapshot) {
				for i := range s.Resources {
					s.Resources[i].Resource.ID = "name-of-" + s.Resources[i].Resource.ID
				}
			})
		}, false},
		{"SC-25", "what has no size is skipped", func(m *mutant) {
			m.editList(func(s *source.Snapshot) {
				s.Resources = slices.DeleteFunc(s.Resources, func(x source.Existing) bool { return len(x.Size) == 0 })
			})
		}, true},
	}
}
