package sourcetest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory/memorytest"
)

// answer changes what the healthy source answers.
func (m *mutant) answer(f func(ctx context.Context, region string, gone bool, err error) (bool, error)) {
	m.gone = func(ctx context.Context, account, region string, r event.Resource) (bool, error) {
		gone, err := m.ask(ctx, account, region, r)
		return f(ctx, region, gone, err)
	}
}

func goneDefects() []defect {
	return []defect{
		{"SC-31", "gone is what lists lack", func(m *mutant) {
			m.gone = func(ctx context.Context, account, region string, r event.Resource) (bool, error) {
				gone, err := m.ask(ctx, account, region, r)
				if s, unlisted := m.Source.(source.Lister).List(ctx); err == nil && unlisted == nil {
					gone = !slices.ContainsFunc(s.Resources, func(x source.Existing) bool { return x.Resource.ID == r.ID })
				}
				return gone, err
			}
		}, true},
		{"SC-31", "nothing is ever gone", func(m *mutant) {
			m.answer(func(_ context.Context, _ string, _ bool, err error) (bool, error) { return false, err })
		}, false},
		{"SC-31", "a process that is new knows of nothing", func(m *mutant) {
			known := map[string]bool{}
			m.editList(func(s *source.Snapshot) {
				m.turn.Lock()
				defer m.turn.Unlock()
				for _, x := range s.Resources {
					known[x.Resource.ID] = true
				}
			})
			m.gone = func(ctx context.Context, account, region string, r event.Resource) (bool, error) {
				gone, err := m.ask(ctx, account, region, r)
				m.turn.Lock()
				defer m.turn.Unlock()
				return gone && known[r.ID], err
			}
		}, true},
		{"SC-32", "any 404 is gone", func(m *mutant) {
			m.answer(func(_ context.Context, _ string, gone bool, err error) (bool, error) {
				if err != nil && strings.Contains(err.Error(), "status 404") {
					return true, nil
				}
				return gone, err
			})
		}, true},
		{"SC-32", "an answer without the resource is gone", func(m *mutant) {
			m.answer(func(_ context.Context, _ string, gone bool, err error) (bool, error) {
				if err != nil && strings.Contains(err.Error(), "status 200") {
					return true, nil
				}
				return gone, err
			})
		}, true},
		{"SC-32", "a question that fails is there", func(m *mutant) {
			m.answer(func(ctx context.Context, _ string, gone bool, err error) (bool, error) {
				if provider.ClassOf(err) == provider.RateLimited {
					return false, nil
				}
				return gone, err
			})
		}, true},
		{"SC-32", "what fails is transient", func(m *mutant) {
			m.answer(func(_ context.Context, _ string, gone bool, err error) (bool, error) {
				if err != nil {
					err = transient(err)
				}
				return gone, err
			})
		}, true},
		{"SC-32", "gone beside the error", func(m *mutant) {
			m.answer(func(ctx context.Context, _ string, gone bool, err error) (bool, error) {
				return gone || provider.ClassOf(err) == provider.Permanent && strings.Contains(err.Error(), "status 401"), err
			})
		}, true},
		{"SC-32", "the credential is in the error", func(m *mutant) {
			m.answer(func(_ context.Context, _ string, gone bool, err error) (bool, error) {
				if err != nil {
					err = provider.Wrap(provider.ClassOf(err), source.OpGone, "m", "", fmt.Errorf("%w, with token %s", err, m.opts.Credential.Reveal()))
				}
				return gone, err
			})
		}, true},
		{"SC-33", "the context is not passed on", func(m *mutant) {
			m.gone = func(ctx context.Context, account, region string, r event.Resource) (bool, error) {
				return m.ask(context.WithoutCancel(ctx), account, region, r)
			}
		}, true},
		{"SC-33", "what was cut off is gone", func(m *mutant) {
			m.answer(func(ctx context.Context, _ string, gone bool, err error) (bool, error) {
				if ctx.Err() != nil {
					return true, nil
				}
				return gone, err
			})
		}, true},
		{"SC-34", "without a region the first is asked", func(m *mutant) {
			m.gone = func(ctx context.Context, account, region string, r event.Resource) (bool, error) {
				if region == "" {
					region = memorytest.First
				}
				return m.ask(ctx, account, region, r)
			}
		}, true},
		{"SC-34", "nothing is in a region that is not known", func(m *mutant) {
			m.answer(func(_ context.Context, region string, gone bool, err error) (bool, error) {
				if err != nil && region != "" && region != memorytest.First && region != memorytest.Second {
					return true, nil
				}
				return gone, err
			})
		}, true},
		{"SC-34", "everything in a broken part is gone", func(m *mutant) {
			m.answer(func(_ context.Context, region string, gone bool, err error) (bool, error) {
				if err != nil && m.oneBroken() {
					return true, nil
				}
				return gone, err
			})
		}, true},
		{"SC-34", "one broken part is an answer of none", func(m *mutant) {
			m.gone = func(ctx context.Context, account, region string, r event.Resource) (bool, error) {
				for _, part := range m.b.Feeds() {
					if gone, err := m.ask(ctx, account, part.Name, r); err != nil {
						return gone, err
					}
				}
				return m.ask(ctx, account, region, r)
			}
		}, true},
		{"SC-35", "all are told what the last has asked", func(m *mutant) {
			type question struct {
				region   string
				resource event.Resource
			}
			var last question
			m.gone = func(ctx context.Context, account, region string, r event.Resource) (bool, error) {
				m.turn.Lock()
				last = question{region, r}
				m.turn.Unlock()
				select { // others ask meanwhile
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
				m.turn.Lock()
				q := last
				m.turn.Unlock()
				return m.ask(ctx, account, q.region, q.resource)
			}
		}, true},
	}
}
