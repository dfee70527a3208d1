package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Known tells the sizes that were reported last for resources of an account, by
// type and id, for those of which anything was. Sizes of what is gone come from
// here. It may be nil.
type Known func(ctx context.Context, p event.Platform, account string, resources []event.Resource) (map[event.Resource]Reported, error)

// Reported is a size as it was reported last.
type Reported struct {
	Size event.Size
	// Since is from when on it was so. It says nothing about what happened before.
	Since time.Time
}

// Open tells what was reported to exist and not to have ended, of all accounts of
// a platform. It is what a source that was away compares with what exists. It may
// be nil: some sinks cannot be asked.
type Open func(ctx context.Context, p event.Platform, t event.ResourceType) ([]OpenResource, error)

// OpenResource is a resource that exists as far as was reported.
type OpenResource struct {
	Account  string
	Resource event.Resource
	Reported
	State event.State
}

// Config is what a type's New gets.
type Config struct {
	// Name is the configured name of the source, which errors carry.
	Name string
	// Account is the account's name in events.
	Account string
	// Decode reads the source's own block strictly into a pointer to a struct.
	Decode func(into any) error
	// Secret reads the value behind a reference of the configuration.
	Secret func(ctx context.Context, name string) (provider.Sensitive, error)
	Logger *slog.Logger
	// Transport counts the requests against the budget of the account, which
	// providers of the same account share; nil counts nothing.
	Transport provider.Transport
	// Known tells sizes that were reported.
	Known Known
	// Open tells what was reported to exist.
	Open Open
}

// Type is a type of sources.
type Type struct {
	// Name is the type's name in the configuration; it is the platform in events.
	Name string
	// Summary says in a few words what is read.
	Summary string
	// Kinds are the kinds of resources that it makes events of.
	Kinds []Kind
	// SubAccounts says that the accounts of events begin with the source's and a
	// slash, such as one for each project.
	SubAccounts bool
	// Exports are the series that the exporter makes of what the streams list: one
	// for each kind that a Lister lists.
	Exports []Export
	// SecretFields are the fields of the type's block that name entries of secrets,
	// such as auth.password. Those whose key ends in secretRef need not be listed.
	SecretFields []string
	// New builds the streams of a source: each is a Source with a cursor of its
	// own. It fails on bad configuration only and makes no request.
	New func(ctx context.Context, cfg Config) ([]Stream, error)
}

// Stream is one feed of a source.
type Stream struct {
	// Name is unique within the source, and part of a workflow id.
	Name   string
	Source Source
}

// CheckType checks what a type says of itself.
func CheckType(t Type) error {
	if err := provider.ValidateName("source type", t.Name); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("source type %q: "+format, append([]any{t.Name}, args...)...)
	}
	switch {
	case t.New == nil:
		return bad("New is nil")
	case t.Summary == "":
		return bad("Summary is empty")
	case len(t.Kinds) == 0:
		return bad("Kinds is empty")
	}
	var errs []error
	for i, k := range t.Kinds {
		fields, ok := event.Fields(t.Platform(), k.Type)
		switch {
		case k.Type == "":
			errs = append(errs, bad("Kinds[%d].Type is empty", i))
		case slices.ContainsFunc(t.Kinds[:i], func(o Kind) bool { return o.Type == k.Type }):
			errs = append(errs, bad("kind %q is listed twice", k.Type))
		case ok && len(fields) == 0:
			errs = append(errs, bad("kind %q has no size fields", k.Type))
		case !slices.Contains(k.Verbs, VerbCreate) || !slices.Contains(k.Verbs, VerbDelete):
			errs = append(errs, bad("kind %q lacks %s or %s: every resource begins and ends", k.Type, VerbCreate, VerbDelete))
		case slices.ContainsFunc(k.Silent, func(v string) bool { return !k.Has(v) }):
			errs = append(errs, bad("kind %q: what is silent is none of its verbs", k.Type))
		}
	}
	return errors.Join(append(errs, CheckExports(t))...)
}

// Platform is the type's platform in events.
func (t Type) Platform() event.Platform { return event.Platform(t.Name) }
