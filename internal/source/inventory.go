package source

import (
	"context"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// OpList names a listing in errors and metrics.
const OpList provider.Op = "list"

// OpGone names the look for one resource in errors and metrics.
const OpGone provider.Op = "gone"

// Lister is a Source that can also say what exists: the inventory and the
// exporter rest on it. Streams whose Source is no Lister take no part in them.
type Lister interface {
	// List reads everything that the stream is about, all pages. It fails rather
	// than leave something out: a listing that is cut short says of everything it
	// lacks that it is gone.
	List(ctx context.Context) (Snapshot, error)
}

// Confirmer is a Lister that can be asked about one resource. The inventory asks it
// before it says that what a listing lacks has ended: services leave things out of
// lists that they still know by their id.
type Confirmer interface {
	// Gone reports whether a resource of an account is gone from it for certain. An
	// error means that this cannot be told, and nothing is concluded then. The region
	// is that of its events; empty means that nobody knows it, and that it may be in any.
	Gone(ctx context.Context, account, region string, r event.Resource) (bool, error)
}

// Snapshot is everything of a stream at one time.
type Snapshot struct {
	// At is when the listing began: what was made or deleted later may be in it or
	// not.
	At time.Time `json:"at"`
	// PlatformAt and PlatformUntil are when the listing began and was over by the
	// platform's own clock, which the times of its changes are of; zero when it does
	// not say.
	PlatformAt    time.Time `json:"platformAt,omitzero"`
	PlatformUntil time.Time `json:"platformUntil,omitzero"`
	// Resources are in no particular order, each there once.
	Resources []Existing `json:"resources"`
	// Unreadable says, of entries that could not even be told apart, what is odd
	// about them. While there are any, nothing that is missing counts as gone.
	Unreadable []string `json:"unreadable,omitempty"`
}

// Existing is a resource that is there.
type Existing struct {
	// Account is the account of its events.
	Account  string         `json:"account"`
	Resource event.Resource `json:"resource"`
	// CreatedAt is when it came to be; zero means that the platform does not say.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Coming: it is being made, and no event says that it exists before that has
	// ended. It is shown, and nothing is concluded from it.
	Coming bool `json:"coming,omitempty"`
	// Leaving: it is being deleted, and exists until it is gone.
	Leaving bool        `json:"leaving,omitempty"`
	Size    event.Size  `json:"size,omitempty"`
	State   event.State `json:"state,omitempty"`
	Region  string      `json:"region,omitempty"`
	// Marks are those of Tollgate's own instances and what belongs to them; nil on
	// anything else.
	Marks *provider.Marks `json:"marks,omitempty"`
	// Info is what the exporter shows beside sizes, by label: the location, the
	// vendor's word for the state, and the like. Never a secret.
	Info map[string]string `json:"info,omitempty"`
	// Values are numbers that the exporter shows beside sizes, by metric name
	// without the prefix.
	Values map[string]float64 `json:"values,omitempty"`
}
