package providertest_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

func TestContractPageIsFresh(t *testing.T) {
	t.Parallel()
	const page = "../../../docs/provider-contract.md"
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := providertest.WriteContract(&want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(got), "\n"), strings.Split(want.String(), "\n")); diff != "" {
		t.Errorf("docs/provider-contract.md is stale; run go generate ./internal/provider/providertest (-have +want):\n%s", diff)
	}
}

// Clauses are numbered without gaps, in the order of the page, and complete.
func TestClausesAreWellFormed(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	if err := providertest.WriteContract(&page); err != nil {
		t.Fatal(err)
	}
	slug := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	byID := map[string]providertest.Clause{}
	for _, c := range providertest.Clauses() {
		if c.Title == "" || !strings.HasSuffix(c.Rule, ".") || !strings.HasSuffix(c.Why, ".") {
			t.Errorf("%s: title %q, rule and why have to be sentences", c.ID, c.Title)
		}
		if !slug.MatchString(c.Slug) || seen[c.Slug] {
			t.Errorf("%s: slug %q is malformed or used twice", c.ID, c.Slug)
		}
		if _, dup := byID[c.ID]; dup {
			t.Errorf("%s is used twice", c.ID)
		}
		seen[c.Slug], byID[c.ID] = true, c
		if n := strings.Count(page.String(), "**"+c.ID+" "+c.Title); n != 1 {
			t.Errorf("%s is on the page %d times", c.ID, n)
		}
	}
	for i := range len(byID) {
		if id := fmt.Sprintf("PC-%02d", i+1); byID[id].ID == "" {
			t.Errorf("%s is missing: numbers have no gaps", id)
		}
	}
}
