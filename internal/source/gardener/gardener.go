// Package gardener reads what happens to the shoots of a Gardener: a watch whose
// cursor is a resourceVersion.
//
// A watch shows objects and not changes. A change is the difference between what a
// shoot was and what it is; what it was is read at the cursor's resourceVersion,
// which an API server can list as long as it keeps it, and is remembered from page
// to page, which only saves the reading. Once the API server has forgotten the
// version, everything is listed anew and compared with what was reported: shoots
// that are missing have ended, others may have changed, and that something may be
// missing for good is said as a gap.
//
// Events follow facts: a shoot is hibernated when its status says so, created when
// its creation has ended, deleted when it is gone. Sizes are what was ordered: the
// minimum of each worker pool. How many nodes run between minimum and maximum only
// the shoot itself knows.
package gardener

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// TypeName is the source type's name in the configuration, and the platform in
// events.
const TypeName = string(event.Gardener)

// StreamName is the name of the one stream of a source.
const StreamName = "shoot"

// Verbs of shoots.
const (
	verbHibernate   = "hibernate.start"
	verbWake        = "hibernate.end"
	verbScale       = "worker.scale"
	verbMachineType = "worker.machine_type_change"
)

func kind() source.Kind {
	return source.Kind{Type: event.Shoot, Verbs: []string{
		source.VerbCreate, source.VerbDelete, verbHibernate, verbWake, verbScale, verbMachineType,
	}}
}

// Options is the block "gardener" of a source's configuration.
type Options struct {
	// Kubeconfig names the secret that holds a kubeconfig. Default: the file that
	// $KUBECONFIG names, then the service account of the pod.
	Kubeconfig string `yaml:"kubeconfig"`
	// Context is the kubeconfig's context to use. Default: its current one.
	Context string `yaml:"context"`
	// Namespace limits the source to one project's namespace. Default: all.
	Namespace string `yaml:"namespace"`
	// Wait is how long a read waits for something to happen. Default 10s.
	Wait time.Duration `yaml:"wait"`
	// CallTimeout bounds each request, the watch excepted. Default 30s.
	CallTimeout time.Duration `yaml:"callTimeout"`
	// QPS and Burst bound the requests of this process. Default 20 and 40.
	QPS   float32 `yaml:"qps"`
	Burst int     `yaml:"burst"`
}

// Type describes the source type.
func Type() source.Type {
	return source.Type{
		Name:    TypeName,
		Summary: "shoots of a Gardener",
		Kinds:   []source.Kind{kind()},
		Exports: exports(),
		// Each project has an account of its own below the source's.
		SubAccounts: true,
		New: func(_ context.Context, cfg source.Config) ([]source.Stream, error) {
			s, err := New(cfg)
			if err != nil {
				return nil, err
			}
			return []source.Stream{{Name: StreamName, Source: s}}, nil
		},
	}
}

// Source watches shoots. It is safe for concurrent use.
type Source struct {
	name, account string
	o             Options
	conn          *gardener.Connection
	projects      *gardener.ProjectNames
	known         source.Known
	open          source.Open
	log           *slog.Logger
	now           func() time.Time

	// pageSize is the most changes on a page, chunk the most shoots in one answer of
	// the API server, and settle how long a page waits for more once it has any.
	pageSize int
	chunk    int64
	settle   time.Duration

	memory memory
	rights rights
}

var (
	_ source.Source = (*Source)(nil)
	_ source.Lister = (*Source)(nil)
)

// New builds the source. It fails on bad configuration only and makes no request.
func New(cfg source.Config) (*Source, error) {
	o, err := decodeOptions(cfg)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	conn := gardener.Options{Context: o.Context, QPS: o.QPS, Burst: o.Burst, Wrap: func(base http.RoundTripper) http.RoundTripper {
		if cfg.Transport != nil {
			base = cfg.Transport(base, "")
		}
		return telemetry.Transport(base)
	}}
	if o.Kubeconfig != "" {
		conn.Kubeconfig = func(ctx context.Context) ([]byte, error) {
			s, err := cfg.Secret(ctx, o.Kubeconfig)
			if err != nil {
				return nil, err
			}
			return s.Reveal(), nil
		}
	}
	c := gardener.NewConnection(conn)
	return &Source{
		name: cfg.Name, account: cfg.Account, o: o, conn: c, projects: gardener.NewProjectNames(c), known: cfg.Known, open: cfg.Open,
		log: log.With("source", cfg.Name), now: time.Now, pageSize: 500, chunk: 500, settle: 100 * time.Millisecond,
	}, nil
}

func decodeOptions(cfg source.Config) (Options, error) {
	var o Options
	if cfg.Decode != nil {
		if err := cfg.Decode(&o); err != nil {
			return o, err
		}
	}
	var p source.Problems
	p.Duration("wait", &o.Wait, 10*time.Second, time.Millisecond, time.Minute)
	p.Duration("callTimeout", &o.CallTimeout, 30*time.Second, time.Second, 5*time.Minute)
	if o.QPS == 0 {
		o.QPS = 20
	}
	if o.Burst == 0 {
		o.Burst = max(int(2*o.QPS), 1)
	}
	if o.QPS < 0.1 || o.QPS > 10000 {
		p.Bad("qps: %g is out of range: use 0.1 to 10000", o.QPS)
	}
	if o.Burst < 1 || o.Burst > 10000 {
		p.Bad("burst: %d is out of range: use 1 to 10000", o.Burst)
	}
	return o, p.Err()
}

// call gives a client and bounds a call.
func (s *Source) call(ctx context.Context) (*gardener.Client, context.Context, context.CancelFunc, error) {
	c, err := s.conn.Client(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.CallTimeout)
	return c, ctx, cancel, nil
}

// forbiddenFor is how long a right may be lacking before it counts as not given: an
// API server that has just started knows its callers before it knows their rights,
// and says the same in both cases.
const forbiddenFor = time.Minute

// wrap classes a failure of a read.
func (s *Source) wrap(op provider.Op, err error) error {
	err = gardener.Classify(op, s.name, "", err)
	var e *provider.Error
	if provider.ReasonOf(err) == provider.ReasonForbidden && errors.As(err, &e) && s.rights.lackingFor(s.now()) < forbiddenFor {
		e.Class = provider.Transient
	}
	return err
}

// rights remembers since when a right has been lacking.
type rights struct {
	mu    sync.Mutex
	since time.Time
}

func (r *rights) lackingFor(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		r.since = now
	}
	return now.Sub(r.since)
}

func (r *rights) given() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Time{}
}
