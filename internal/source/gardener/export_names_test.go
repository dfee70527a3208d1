package gardener_test

import (
	"slices"
	"testing"

	source_gardener "github.com/tollgate-dev/tollgate/internal/source/gardener"
)

// The names and labels that dashboards rest on.
func TestSeries(t *testing.T) {
	t.Parallel()
	typ := source_gardener.Type()
	x := typ.Exports[0]
	got := map[string][]string{}
	for _, f := range x.Families {
		got[typ.PrefixOf(x)+"_"+f.Name] = x.LabelsOf(f)
	}
	for name, labels := range map[string][]string{
		"gardener_shoot_info":                {"project", "name", "kubernetes_version", "infrastructure"},
		"gardener_shoot_worker_count":        {"project", "name", "pool"},
		"gardener_shoot_worker_machine_type": {"project", "name", "pool", "type"},
		"gardener_shoot_status":              {"project", "name", "status"},
		"gardener_shoot_hibernated":          {"project", "name"},
		"gardener_shoot_hibernation_wanted":  {"project", "name"},
	} {
		for _, l := range labels {
			if !slices.Contains(got[name], l) {
				t.Errorf("%s has the labels %v, and not %s", name, got[name], l)
			}
		}
	}
}
