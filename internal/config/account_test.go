package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestAccountsAndReapsRefused(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct{ yaml, want string }{
		"requests per hour": {base + "    budget: {requestsPerHour: 0}\n", "c.yaml:5: providers[0].budget.requestsPerHour: 0 is out of range: use 1 to 100000000, or leave it out for 0"},
		"reserve too large": {base + "    budget: {requestsPerHour: 100, reserve: 51}\n", "c.yaml:5: providers[0].budget.reserve: 51 is out of range: use 0 to 50, or leave it out for 0"},
		"account name":      {base + "    budget: {account: My Project}\n", `c.yaml:5: providers[0].budget.account: "My Project" is not a name`},
		"cap empty":         {base + "    spendCap: {}\n", "c.yaml:5: providers[0].spendCap.eurPerHour: is required"},
		"cap zero":          {base + "    spendCap: {eurPerHour: 0.00}\n", `c.yaml:5: providers[0].spendCap.eurPerHour: "0.00" lets nothing be created`},
		"cap negative":      {base + "    spendCap: {eurPerHour: -1}\n", `c.yaml:5: providers[0].spendCap.eurPerHour: "-1" is no amount in euros`},
		"cap with currency": {base + "    spendCap: {eurPerHour: 1 EUR}\n", `c.yaml:5: providers[0].spendCap.eurPerHour: "1 EUR" is no amount in euros`},
		"cap unknown field": {base + "    spendCap: {eur: 1}\n", "c.yaml:5: providers[0].spendCap.eur: unknown field: allowed are eurPerHour\n"},
		"price missing":     {base + "    prices: [{machineType: small}]\n", "c.yaml:5: providers[0].prices[0].eurPerHour: is required"},
		"price no amount":   {base + "    prices: [{eurPerHour: cheap}]\n", `c.yaml:5: providers[0].prices[0].eurPerHour: "cheap" is no amount in euros`},
		"price of a field":  {base + "    prices: [{flavor: small, eurPerHour: 1}]\n", "c.yaml:5: providers[0].prices[0].flavor: unknown field: allowed are eurPerHour, machineType, region, zone"},
		"price twice":       {base + "    prices: [{eurPerHour: 1}, {zone: a, eurPerHour: 2}]\n", "c.yaml:5: providers[0].prices[1]: never counts, since prices[0] fits wherever it does"},
		"reap no provider":  {base + "reap: [{selector: {namespace: ci}, olderThan: 1h}]\n", "c.yaml:5: reap[0].provider: is required: use one of one"},
		"reap unknown":      {base + "reap: [{provider: two, selector: {namespace: ci}, olderThan: 1h}]\n", `c.yaml:5: reap[0].provider: "two" is not configured: use one of one`},
		"reap no selector":  {base + "reap: [{provider: one, olderThan: 1h}]\n", "c.yaml:5: reap[0].selector: is required: what to delete, by namespace, proxy or uid"},
		"reap by owner":     {base + "reap: [{provider: one, selector: {installation: x}, olderThan: 1h}]\n", "c.yaml:5: reap[0].selector.installation: unknown field: allowed are namespace, proxy, uid\n"},
		"reap no age":       {base + "reap: [{provider: one, selector: {namespace: ci}}]\n", "c.yaml:5: reap[0].olderThan: is required: the age"},
		"reap young":        {base + "reap: [{provider: one, selector: {namespace: ci}, olderThan: 10s}]\n", "c.yaml:5: reap[0].olderThan: 10s is out of range: use 1m to 8760h, such as 6h"},
		"reap no unit":      {base + "reap: [{provider: one, selector: {namespace: ci}, olderThan: 6}]\n", `c.yaml:5: reap[0].olderThan: "6" is no duration with a unit`},
		"reap namespace":    {base + "reap: [{provider: one, selector: {namespace: CI}, olderThan: 6h}]\n", `c.yaml:5: reap[0].selector.namespace: "CI" is not a name`},
		"reap twice": {base + "reap:\n  - {provider: one, selector: {namespace: ci}, olderThan: 6h}\n  - {provider: one, selector: {namespace: ci}, olderThan: 7h}\n",
			"c.yaml:7: reap[1].selector: provider one is reaped by this selector already"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tt.yaml), "c.yaml", testOptions)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestFleetsAreToldTheCap(t *testing.T) {
	t.Parallel()
	c, err := Load("testdata/full.yaml", testOptions)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range c.Providers {
		got[p.Name] = c.FleetConfig(p, "h").SpendCap.String()
	}
	if want := map[string]string{"here": "0.000000", "fsn": "1.500000"}; !maps.Equal(got, want) {
		t.Errorf("caps %v, want %v", got, want)
	}
	var reaped []string
	for _, r := range c.Reap {
		if err := r.Input().Validate(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
		reaped = append(reaped, r.Input().Provider)
	}
	if !slices.Equal(reaped, []string{"fsn", "fsn"}) {
		t.Errorf("reaped %v", reaped)
	}
}
