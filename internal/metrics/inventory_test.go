package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestInventory(t *testing.T) {
	t.Parallel()
	var none *Inventory
	none.Listed("h", "server", ClassDone)
	none.Compared("h", "server", Comparison{}, time.Hour)
	none.Forget("h")

	reg := prometheus.NewPedanticRegistry()
	m := NewInventory(reg)
	now := time.Unix(1_700_000_000, 0)
	m.compared.now = func() time.Time { return now }
	m.Listed("h", "server", ClassDone)
	m.Listed("h", "server", "Transient")
	m.Compared("h", "server", Comparison{At: now, Found: map[string]int{"Vanished": 3, "Unreported": 0}, Repaired: map[string]int{"Vanished": 2}, Open: 1}, time.Hour)
	m.Compared("i", "volume", Comparison{At: now}, 3*time.Hour)
	m.Compared("h", "server", Comparison{At: now, Found: map[string]int{"Vanished": 1}, Repaired: map[string]int{"Vanished": 1}}, time.Hour)
	all := []string{
		"tollgate_inventory_differences", "tollgate_inventory_last_comparison_timestamp_seconds", "tollgate_inventory_listings_total",
		"tollgate_inventory_open_differences", "tollgate_inventory_repairs_total",
	}
	const counted = `tollgate_inventory_listings_total{class=OK,source=h,stream=server} 1
tollgate_inventory_listings_total{class=Transient,source=h,stream=server} 1`
	want := `tollgate_inventory_differences{kind=Vanished,source=h,stream=server} 1
tollgate_inventory_last_comparison_timestamp_seconds{source=h,stream=server} 1.7e+09
tollgate_inventory_last_comparison_timestamp_seconds{source=i,stream=volume} 1.7e+09
` + counted + `
tollgate_inventory_open_differences{source=h,stream=server} 0
tollgate_inventory_open_differences{source=i,stream=volume} 0
tollgate_inventory_repairs_total{kind=Vanished,source=h,stream=server} 3`
	if diff := cmp.Diff(gather(t, reg, all...), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	now = now.Add(2 * time.Hour)
	want = `tollgate_inventory_last_comparison_timestamp_seconds{source=i,stream=volume} 1.7e+09
` + counted + `
tollgate_inventory_open_differences{source=i,stream=volume} 0
tollgate_inventory_repairs_total{kind=Vanished,source=h,stream=server} 3`
	if diff := cmp.Diff(gather(t, reg, all...), want); diff != "" {
		t.Errorf("later (-got +want):\n%s", diff)
	}
	m.Forget("h")
	if got := gather(t, reg, all[2], all[4]); got != "" {
		t.Errorf("after the source is gone: %s", got)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
