//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// promtool runs the pinned promtool.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bins(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Every query of the dashboards is one that Prometheus takes. Whether the metrics
// and labels in them exist is tested elsewhere.
func TestDashboardsHaveValidQueries(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	variables := strings.NewReplacer("$__rate_interval", "5m", "$provider", ".*", "$source", ".*")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(b, &board); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		for _, p := range board.Panels {
			for _, q := range p.Targets {
				rules = append(rules, rule{Record: "panel:" + strconv.Itoa(len(rules)), Expr: variables.Replace(q.Expr)})
			}
		}
	}
	if len(rules) < 60 {
		t.Errorf("only %d queries", len(rules))
	}
	// YAML takes JSON.
	b, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", "--lint=none", file)
}
