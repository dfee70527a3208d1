package provider_test

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func TestPriceList(t *testing.T) {
	t.Parallel()
	list := provider.PriceList{
		{Region: "one", MachineType: "small", EURPerHour: 10},
		{Region: "one", Zone: "b", EURPerHour: 50},
		{MachineType: "small", EURPerHour: 20},
		{Region: "two", EURPerHour: 40},
	}
	for name, tc := range map[string]struct {
		place provider.Placement
		want  provider.MicroEUR
		known bool
	}{
		"the first that fits":   {provider.Placement{Region: "one", Zone: "b", MachineType: "small"}, 10, true},
		"a later one":           {provider.Placement{Region: "one", Zone: "b", MachineType: "large"}, 50, true},
		"of any region":         {provider.Placement{Region: "three", MachineType: "small"}, 20, true},
		"of any machine":        {provider.Placement{Region: "two", MachineType: "large"}, 40, true},
		"of none":               {provider.Placement{Region: "two"}, 40, true},
		"an image is no matter": {provider.Placement{Region: "two", Image: "x"}, 40, true},
		"none fits":             {provider.Placement{Region: "three", MachineType: "large"}, 0, false},
		"nothing is said":       {provider.Placement{}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, known := list.Of(tc.place); got != tc.want || known != tc.known {
				t.Errorf("price %v, known %v; want %v, %v", got, known, tc.want, tc.known)
			}
		})
	}
	small, two, nowhere := provider.Placement{MachineType: "small"}, provider.Placement{Region: "two"}, provider.Placement{}
	for name, tc := range map[string]struct {
		places []provider.Placement
		want   provider.MicroEUR
		known  bool
	}{
		"the dearest":            {[]provider.Placement{small, two, small}, 40, true},
		"one of them is unknown": {[]provider.Placement{two, nowhere}, 0, false},
		"nowhere":                {nil, 0, false},
	} {
		if got, known := list.OfAny(tc.places); got != tc.want || known != tc.known {
			t.Errorf("%s: price %v, known %v; want %v, %v", name, got, known, tc.want, tc.known)
		}
	}
}

func TestAPriceEntryCoversAnother(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		a, b provider.PriceEntry
		want bool
	}{
		"everything":     {provider.PriceEntry{}, provider.PriceEntry{Region: "one"}, true},
		"itself":         {provider.PriceEntry{Region: "one"}, provider.PriceEntry{Region: "one", EURPerHour: 1}, true},
		"more special":   {provider.PriceEntry{Region: "one", Zone: "a"}, provider.PriceEntry{Region: "one"}, false},
		"something else": {provider.PriceEntry{MachineType: "small"}, provider.PriceEntry{Region: "one"}, false},
	} {
		if got := tc.a.Covers(tc.b); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
