package providertest

import (
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Backend is what the kit needs of the far side of every driver: to look, past
// the driver, at everything that exists there. Its other abilities are the
// small interfaces below; a harness declares which ones its backend has, and
// declaration, implementation and profile have to agree.
//
// All methods are called from the test's own goroutine unless the clause is
// about concurrency, and fail the test with tb when the backend cannot do what
// it is asked to.
type Backend interface {
	// Things lists everything that exists, in a stable order: instances and all
	// that drivers make beside them, ours or not, gone only when it is really
	// gone.
	Things(tb testing.TB) []Thing
}

// Thing is one thing at the backend. Two looks at an unchanged thing are equal.
type Thing struct {
	// Kind is KindInstance or the driver's own word.
	Kind string
	ID   string
	Name string
	// Marks are those that the backend stores; Managed is the managed mark.
	Marks   provider.Marks
	Managed bool
}

// KindInstance is the Kind of instances.
const KindInstance = "instance"

// Placer puts things there that the driver under test did not make.
type Placer interface {
	// Place makes an instance with this name and these marks. With managed false
	// it carries no mark at all.
	Place(tb testing.TB, name string, marks provider.Marks, managed bool)
	// Vanish removes the instances of that name, without the driver, at once.
	Vanish(tb testing.TB, name string)
}

// Stopper stops instances behind the driver's back.
type Stopper interface {
	// Stop ends the instance of that name for good and lets it exist.
	Stop(tb testing.TB, name string)
}

// ReplyLoser loses replies.
type ReplyLoser interface {
	// LoseCreateReply makes the next request that creates an instance succeed at
	// the backend and fail for the driver.
	LoseCreateReply(tb testing.TB)
}

// Hanger stops answering.
type Hanger interface {
	// Hang makes every request wait until release is called or the driver gives
	// up.
	Hang(tb testing.TB) (release func())
}

// FaultKind is a way in which a request fails.
type FaultKind string

// The faults. Those with a number are the answer of that HTTP status with the
// backend's own most general code for it.
const (
	FaultUnauthorized FaultKind = "401"
	FaultForbidden    FaultKind = "403"
	FaultNotFound     FaultKind = "404"
	FaultConflict     FaultKind = "409"
	FaultInvalid      FaultKind = "422"
	FaultThrottled    FaultKind = "429"
	FaultInternal     FaultKind = "500"
	FaultUnavailable  FaultKind = "503"
	// FaultTruncated is a 200 whose body ends in the middle.
	FaultTruncated FaultKind = "truncated"
	// FaultQuota is the answer for an account that is used up.
	FaultQuota FaultKind = "quota"
)

// Fault is one to inject.
type Fault struct {
	Kind FaultKind
	// RetryAfter is for FaultThrottled: the wait that the backend asks for, whole
	// seconds.
	RetryAfter time.Duration
	// Echo is a text that the backend repeats in its error message, as backends
	// do with headers and bodies they did not like.
	Echo string
}

// Faulter fails requests.
type Faulter interface {
	// Inject makes requests fail like this until heal is called: those that create
	// an instance for FaultNotFound, FaultConflict, FaultInvalid and FaultQuota,
	// and every request for the others. Nothing is done at the backend for a
	// failed request, FaultTruncated excepted.
	Inject(tb testing.TB, f Fault) (heal func())
}

// SoldOuter is sold out.
type SoldOuter interface {
	// SellOut refuses to create instances for want of capacity until restock is
	// called. Whatever a driver makes before the instance is still made.
	SellOut(tb testing.TB) (restock func())
}

// Lagger lists late.
type Lagger interface {
	// LagList hides instances from listings for d after their creation, as an
	// index does that is behind; zero ends that. Reads by id, and by name where the backend has
	// such a read, are not behind.
	LagList(tb testing.TB, d time.Duration)
}

// Pager lists in pages.
type Pager interface {
	// PageSize is the number of instances on one page of a listing; the kit makes
	// more than that, so keep it small.
	PageSize(tb testing.TB) int
	// BreakPage makes reading the n-th page fail with a server error until heal is
	// called; pages count from 1.
	BreakPage(tb testing.TB, n int) (heal func())
}

// BootHolder boots slowly.
type BootHolder interface {
	// HoldBoot keeps instances made from now on from starting until release is
	// called.
	HoldBoot(tb testing.TB) (release func())
}

// AddressHider runs instances without an address.
type AddressHider interface {
	// HideAddress lets the instance of that name run without an address until show
	// is called.
	HideAddress(tb testing.TB, name string) (show func())
}

// StateSetter says words nobody knows.
type StateSetter interface {
	// SetRawState makes the backend call the state of the instance of that name
	// raw.
	SetRawState(tb testing.TB, name, raw string)
}

// DeleteHolder deletes slowly.
type DeleteHolder interface {
	// HoldDeletes keeps instances that are deleted from now on deleting until
	// release is called.
	HoldDeletes(tb testing.TB) (release func())
}

// UserDataReader shows what the guest got.
type UserDataReader interface {
	// UserData returns the user-data of the instance of that name as the guest
	// would read it.
	UserData(tb testing.TB, name string) []byte
}

// Hook names an ability of a Backend.
type Hook string

// The hooks, one for each interface above.
const (
	HookPlace       Hook = "place"
	HookStop        Hook = "stop"
	HookLoseReply   Hook = "lose-reply"
	HookHang        Hook = "hang"
	HookFaults      Hook = "faults"
	HookSellOut     Hook = "sell-out"
	HookLag         Hook = "lag"
	HookPages       Hook = "pages"
	HookHoldBoot    Hook = "hold-boot"
	HookHideAddress Hook = "hide-address"
	HookRawState    Hook = "raw-state"
	HookHoldDeletes Hook = "hold-deletes"
	HookUserData    Hook = "user-data"
)

// hookRule says when a backend has to have a hook.
type hookRule struct {
	hook Hook
	// has reports whether b implements the hook's interface.
	has func(b Backend) bool
	// when says in words, and wanted in code, which profiles want it. A profile
	// that does not want a hook must not come with it: either the answer on the
	// axis or the hook is wrong.
	when   string
	wanted func(p provider.Profile) bool
	// optional hooks are a fact of the backend that no axis asks for.
	optional bool
}

func implements[T any](b Backend) bool { _, ok := b.(T); return ok }

func hookRules() []hookRule {
	always := func(provider.Profile) bool { return true }
	remote := func(p provider.Profile) bool { return p.ClientKind != "local-process" }
	const whenRemote = "client-kind is not local-process"
	return []hookRule{
		{HookPlace, implements[Placer], "always", always, false},
		{HookStop, implements[Stopper], "always", always, false},
		{HookLoseReply, implements[ReplyLoser], whenRemote, remote, false},
		{HookHang, implements[Hanger], whenRemote, remote, false},
		{HookFaults, implements[Faulter], whenRemote, remote, false},
		{HookSellOut, implements[SoldOuter], "the backend has an answer of its own for 'sold out'", remote, true},
		{HookLag, implements[Lagger], "settle is not zero and " + whenRemote,
			func(p provider.Profile) bool { return p.Settle > 0 && remote(p) }, false},
		{HookPages, implements[Pager], whenRemote, remote, false},
		{HookHoldBoot, implements[BootHolder], "readiness is provisioning-window",
			func(p provider.Profile) bool { return p.Readiness == "provisioning-window" }, false},
		{HookHideAddress, implements[AddressHider], whenRemote, remote, false},
		{HookRawState, implements[StateSetter], whenRemote, remote, false},
		{HookHoldDeletes, implements[DeleteHolder], "delete-return is returns-early",
			func(p provider.Profile) bool { return p.DeleteReturn == "returns-early" }, false},
		{HookUserData, implements[UserDataReader], whenRemote, remote, false},
	}
}

func hookRuleOf(h Hook) hookRule {
	for _, r := range hookRules() {
		if r.hook == h {
			return r
		}
	}
	panic("providertest: no such hook: " + string(h))
}
