package api

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// SpendRequest asks whether an instance may be made. The instance's name is the
// key: asking again for the same one holds one place.
type SpendRequest struct {
	UID       string            `json:"uid"`
	Namespace string            `json:"namespace"`
	Proxy     string            `json:"proxy"`
	Instance  string            `json:"instance"`
	Price     provider.MicroEUR `json:"price"`
	// Known is false when nobody can say what the instance costs.
	Known bool `json:"known"`
	// Cap is the one that the asking worker is configured with: a fleet that has not
	// heard of any yet lets nothing through.
	Cap provider.MicroEUR `json:"cap,omitempty"`
}

// SpendAnswer says whether it may, and the figures.
type SpendAnswer struct {
	Granted bool `json:"granted"`
	// Unready: what the fleet costs is not known yet; ask again soon.
	Unready bool              `json:"unready,omitempty"`
	Cap     provider.MicroEUR `json:"cap,omitempty"`
	// Total is what counts without the instance that was asked for; Instances and
	// Creates say of how many in the listing, and made since, it consists.
	Total     provider.MicroEUR `json:"total,omitempty"`
	Instances int               `json:"instances,omitempty"`
	Creates   int               `json:"creates,omitempty"`
	// Unpriced instances are in no total.
	Unpriced int `json:"unpriced,omitempty"`
}

// SpendRelease says that an instance does not exist (any more).
type SpendRelease struct {
	Instance string `json:"instance"`
	// Failed: a create was refused, so most likely nothing was made; the next
	// listing says for certain.
	Failed bool `json:"failed,omitempty"`
}

// SpendListing is what a complete listing says about the costs.
type SpendListing struct {
	Total     provider.MicroEUR `json:"total"`
	Instances int               `json:"instances"`
	Unpriced  int               `json:"unpriced,omitempty"`
	// Held are the names, of those that hold a place, that were listed.
	Held []string `json:"held,omitempty"`
}

// SpendState is what shard 0 of a fleet knows about the costs. Without a cap only
// the listing's figures are kept.
type SpendState struct {
	// Since is when there came to be a cap: nothing is granted before a listing that
	// began later.
	Since time.Time `json:"since,omitzero"`
	// ListedAt is when the listing that Listed is of was asked for; TriedAt when the
	// latest one was.
	ListedAt time.Time    `json:"listedAt,omitzero"`
	TriedAt  time.Time    `json:"triedAt,omitzero"`
	Listed   SpendListing `json:"listed,omitzero"`
	// Held are the creates that were let through, by name.
	Held []SpendHeld `json:"held,omitempty"`
	// Waiting are the proxies that were refused, the oldest first.
	Waiting []SpendWaiting `json:"waiting,omitempty"`
	// FreedAt is when something was last said to be gone.
	FreedAt time.Time `json:"freedAt,omitzero"`
	Refused int64     `json:"refused,omitempty"`
}

// SpendHeld is a create that was let through.
type SpendHeld struct {
	Instance string            `json:"i"`
	Price    provider.MicroEUR `json:"p"`
	// At is when it was last asked for.
	At time.Time `json:"a"`
	// FailedAt is when it was said to have made nothing.
	FailedAt time.Time `json:"f,omitzero"`
	// Listed: the listing has it, so it is counted there.
	Listed bool `json:"l,omitempty"`
}

// SpendWaiting is a proxy that waits for room.
type SpendWaiting struct {
	UID       string            `json:"u"`
	Namespace string            `json:"ns"`
	Proxy     string            `json:"n"`
	Price     provider.MicroEUR `json:"p"`
	Unknown   bool              `json:"k,omitempty"`
	Since     time.Time         `json:"s"`
	// At is when it was last refused.
	At time.Time `json:"a"`
	// WokenAt is when it was told to try again; it has a while to come.
	WokenAt time.Time `json:"w,omitzero"`
}

// SpendStatus is the part of a fleet's status about its costs.
type SpendStatus struct {
	// EURPerHour is what counts: the instances of the latest listing and the creates
	// since. SpendCap is empty without a cap.
	EURPerHour string `json:"eurPerHour"`
	SpendCap   string `json:"spendCap,omitempty"`
	Instances  int    `json:"instances"`
	Unpriced   int    `json:"unpriced,omitempty"`
	Creates    int    `json:"creates,omitempty"`
	// Waiting proxies have no room below the cap; Refused counts the refusals.
	Waiting int   `json:"waiting,omitempty"`
	Refused int64 `json:"refused,omitempty"`
}
