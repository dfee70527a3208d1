package provider

import (
	"context"
	"log/slog"
	"slices"
	"sync"
)

// StateMap turns a backend's words for states into ours. It is safe for
// concurrent use.
//
// A word that it does not know is StateProvisioning: the instance exists, and
// whoever waits for it gives up at the never-healthy deadline and replaces it.
// Calling it stopped instead would delete and recreate for ever on the day that
// a vendor adds a state to its boot sequence.
type StateMap struct {
	known  map[string]State
	logger *slog.Logger

	mu      sync.Mutex
	unknown map[string]bool
}

// NewStateMap returns a map of the known words. An unknown one is logged to
// logger once, with the word and the instance.
func NewStateMap(logger *slog.Logger, known map[string]State) *StateMap {
	return &StateMap{known: known, logger: logger, unknown: map[string]bool{}}
}

// Map returns the state for the backend's word raw.
func (m *StateMap) Map(ctx context.Context, raw string, id InstanceID) State {
	if s, ok := m.known[raw]; ok {
		return s
	}
	m.mu.Lock()
	seen := m.unknown[raw]
	m.unknown[raw] = true
	m.mu.Unlock()
	if !seen {
		m.logger.WarnContext(ctx, "unknown instance state, taken for provisioning",
			slog.String("raw_state", raw), slog.String("instance", string(id)))
	}
	return StateProvisioning
}

// UnknownStates lists the unknown words met so far, sorted.
func (m *StateMap) UnknownStates() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]string, 0, len(m.unknown))
	for s := range m.unknown {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// UnknownStater is implemented by drivers that count the backend states they do
// not know; embedding a *StateMap does it.
type UnknownStater interface{ UnknownStates() []string }
