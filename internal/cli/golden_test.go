package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// world is a namespace with two providers, three proxies and all that belongs to
// them.
func world() *fakeTemporal {
	f := newFake()
	demo := serving()
	demo.Metadata.Labels = map[string]string{"team": "web"}
	demo.Spec.CloudInit = &api.SecretSource{Inline: api.RedactedInline}
	demo.Spec.Placement.Region = "fsn1"
	demo.Status.Replacements, demo.Status.LastReplacement = 1, "Requested: blocked"
	f.runs["proxy/default/demo"] = running(workflows.TypeProxy, demo)
	waiting := proxyState(api.PhasePending, api.Condition{Status: api.False, Reason: "QuotaExceeded", Message: "the account may have 10 servers"}, api.Condition{})
	waiting.Metadata.Name, waiting.Spec.Provider, waiting.Status.NextRetry = "waiting", "hetzner", testNow.Add(4*time.Minute)
	waiting.Metadata.Generation = 2
	f.runs["proxy/default/waiting"] = running(workflows.TypeProxy, waiting)
	old := running(workflows.TypeProxy)
	old.status, old.closeTime = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, testNow.Add(-time.Hour)
	f.runs["proxy/default/old"] = old

	row := func(p api.Proxy, healthy bool, reason string) api.FleetRow {
		return api.FleetRow{UID: p.Metadata.UID, Namespace: p.Metadata.Namespace, Name: p.Metadata.Name, Phase: p.Status.Phase,
			InstanceID: p.Status.InstanceID, IP: p.Status.IP, Port: p.Status.Port, Healthy: healthy, Reason: reason,
			Placement: p.Spec.Placement, Labels: p.Metadata.Labels, CreatedAt: p.Metadata.CreationTimestamp}
	}
	elsewhere := serving()
	elsewhere.Metadata.Namespace, elsewhere.Metadata.Name, elsewhere.Metadata.UID = "team-b", "other", "uid-3"
	fleet := func(provider string, shard, shards int, st api.FleetStatus, rows ...api.FleetRow) {
		r := running(workflows.TypeFleetWatch, api.Fleet{APIVersion: api.APIVersion, Kind: api.KindFleet,
			Metadata: api.Metadata{Name: provider}, Spec: api.FleetConfig{Shards: shards}, Status: st})
		r.table = api.FleetTable{Provider: provider, Shard: shard, Shards: shards, Version: "v1", Rows: rows}
		f.runs[workflows.FleetID(provider, shard)] = r
	}
	seen := api.ProbeState{At: testNow.Add(-20 * time.Second), Probed: 1}
	fleet("local", 0, 2, api.FleetStatus{Rows: 1, Healthy: 1, Probe: seen, Drift: api.DriftState{ListedAt: testNow.Add(-time.Minute)}}, row(demo, true, "Proven"))
	fleet("local", 1, 2, api.FleetStatus{Shard: 1, Rows: 1, Healthy: 1, Probe: seen}, row(elsewhere, true, "Proven"))
	fleet("hetzner", 0, 1, api.FleetStatus{Rows: 1, Latched: 1,
		Brake: api.FleetBrake{On: true, Reason: api.ReasonManyFailing, Message: "3 of 4 fail", Since: testNow.Add(-time.Hour)},
		Probe: api.ProbeState{At: testNow, Probed: 4, Failing: map[string]int{"refused": 2, "timeout": 1}}}, row(waiting, false, "QuotaExceeded"))

	health := func(name, kind string, ready bool, reason, message string, targets ...provider.TargetStatus) {
		h := api.ProviderHealth{APIVersion: api.APIVersion, Kind: api.KindProviderHealth, Metadata: api.Metadata{Name: name},
			Status: api.ProviderHealthStatus{Type: kind, Supported: true, Ready: ready, Reason: reason, Message: message, Targets: targets,
				CheckedAt: testNow.Add(-30 * time.Second), Since: testNow.Add(-time.Hour)}}
		r := running(workflows.TypeProviderHealth, h)
		r.updates[workflows.UpdateCheck] = func(context.Context, []byte) (any, error) { return h, nil }
		f.runs[workflows.ProviderHealthID(name)] = r
	}
	health("local", "local", true, api.ReasonAllReady, "", provider.TargetStatus{Target: "host", Ready: true, Reason: "Reachable", Latency: 3 * time.Millisecond, Details: map[string]string{"processes": "2"}})
	health("hetzner", "hetzner", false, "Unauthorized", "the token is refused", provider.TargetStatus{Target: "api.hetzner.cloud", Reason: "Unauthorized", Message: "the token is refused", Latency: 120 * time.Millisecond})
	return f
}

func TestOutput(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"get":             "proxy get demo",
		"get-wide":        "proxy get demo -o wide",
		"get-json":        "proxy get demo -o json",
		"get-yaml":        "proxy get demo -o yaml",
		"get-waiting":     "proxy get waiting",
		"get-deleted":     "proxy get old",
		"get-missing":     "proxy get nobody",
		"list":            "proxy list",
		"list-all-wide":   "proxy list -A -o wide",
		"list-yaml":       "proxy list -p local -o yaml",
		"list-filtered":   "proxy list -A --healthy -l team=web",
		"list-none":       "proxy list -n empty",
		"list-unknown":    "proxy list -p nope",
		"fleet":           "fleet list",
		"fleet-yaml":      "fleet list hetzner -o yaml",
		"fleet-release":   "fleet release hetzner",
		"providers":       "providers list",
		"providers-wide":  "providers list -o wide",
		"providers-check": "providers check",
		"check-local":     "providers check local -o json",
		"check-unknown":   "providers check nope",
		"create-dry-run":  "proxy create new -p local --port 8080 --cloud-init-secret squid --auth-secret users --replacement createbeforedelete --never-healthy-after 90s -l team=web --dry-run",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newCLI(t, world()).golden(name, strings.Fields(args)...)
		})
	}
}

func TestHelpOfEveryCommand(t *testing.T) {
	t.Parallel()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		if c.Name() == "completion" || c.Name() == "help" {
			return
		}
		t.Run(strings.Join(append([]string{"tollgate"}, path...), "-"), func(t *testing.T) {
			newCLI(t, newFake()).golden("help/"+strings.Join(append([]string{"tollgate"}, path...), "-"), append(path, "--help")...)
		})
		if !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(NewRoot(Env{Getenv: func(string) string { return "" }}))
}

// A command that touches a workflow says how to do so without tollgate.
func TestCommandsNameTheirTemporalLine(t *testing.T) {
	t.Parallel()
	own := map[string]bool{"version": true, "keys": true, "completion": true, "help": true}
	var walk func(c *cobra.Command, group string)
	walk = func(c *cobra.Command, group string) {
		if own[c.Name()] || own[group] {
			return
		}
		if !c.HasSubCommands() && !strings.Contains(c.Annotations[annotationTemporal], "temporal ") {
			t.Errorf("%s has no equivalent temporal line", c.CommandPath())
		}
		for _, child := range c.Commands() {
			walk(child, c.Name())
		}
	}
	walk(NewRoot(Env{Getenv: func(string) string { return "" }}), "")
}
