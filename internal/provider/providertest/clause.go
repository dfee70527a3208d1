package providertest

import "slices"

// Clause is one rule of the contract with the check that proves it.
type Clause struct {
	// ID is PC- and two digits. Clauses are only ever added.
	ID string
	// Slug is the name of the subtest.
	Slug string
	// Section is the heading under which the page lists it.
	Section string
	// Title is the rule in a few words, Rule in full, Why what breaks otherwise.
	Title, Rule, Why string
	// Needs are the hooks without which the rule cannot be checked.
	Needs []Hook
	// When says for which drivers the rule holds; empty is all.
	When string

	applies func(h Harness) (bool, string)
	check   func(e *env)
}

// Sections of the contract page, in order.
const (
	secProvider = "The provider"
	secCreate   = "Create"
	secGet      = "Get and Find"
	secDelete   = "Delete"
	secList     = "List"
	secContext  = "Time"
	secErrors   = "Errors"
	secSecrets  = "Secrets"
	secOptional = "Optional interfaces"
)

func sections() []string {
	return []string{secProvider, secCreate, secGet, secDelete, secList, secContext, secErrors, secSecrets, secOptional}
}

// Clauses returns the contract, in the order of the page.
func Clauses() []Clause {
	return slices.Concat(providerClauses(), createClauses(), adoptionClauses(), readClauses(), stateClauses(),
		deleteClauses(), listClauses(), contextClauses(), errorClauses(), secretClauses(), optionalClauses())
}

// profileIs makes a clause hold for drivers with this answer only.
func profileIs(axis, want string) (when string, applies func(Harness) (bool, string)) {
	return axis + " is " + want, func(h Harness) (bool, string) {
		for a, got := range h.Profile.Axes() {
			if a.Code == axis {
				return got == want, axis + " is " + got
			}
		}
		panic("providertest: no such axis: " + axis)
	}
}
