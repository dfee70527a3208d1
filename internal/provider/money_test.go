package provider_test

import (
	"math"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func TestParseMicroEUR(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]provider.MicroEUR{
		"0": 0, "1.50": 1_500_000, "0.006": 6000, "0.000001": 1, "12": 12_000_000, "0.1": 100_000, "1000000": provider.MaxMicroEUR,
	} {
		if got, err := provider.ParseMicroEUR(text); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".5", "5.", "1,50", "-1", "+1", "1e3", "0.0000001", "1.5 EUR", "NaN", "1000001", "99999999999999999999"} {
		if got, err := provider.ParseMicroEUR(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestSumsDoNotWrapAround(t *testing.T) {
	t.Parallel()
	if got := provider.MicroEUR(math.MaxInt64 - 1).Add(5); got != math.MaxInt64 {
		t.Errorf("sum %v", got)
	}
	if got := provider.MicroEUR(2).Add(3); got != 5 {
		t.Errorf("sum %v", got)
	}
}
