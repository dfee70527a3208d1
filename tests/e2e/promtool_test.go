//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// panelQuery is one query of a dashboard.
type panelQuery struct{ where, expr string }

// panelQueries are those of all dashboards, with all variables set to everything.
func panelQueries(t *testing.T) (out []panelQuery) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$provider", ".*", "$source", ".*", "$project", ".*", "$region", ".*")
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
				out = append(out, panelQuery{filepath.Base(f) + ": " + p.Title, variables.Replace(q.Expr)})
			}
		}
	}
	if len(out) < 100 {
		t.Errorf("only %d queries", len(out))
	}
	return out
}

// ruleFile writes what promtool reads: YAML takes JSON.
func ruleFile(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Every query of the dashboards is one that Prometheus takes. Whether the metrics
// and labels in them exist is tested elsewhere.
func TestDashboardsHaveValidQueries(t *testing.T) {
	t.Parallel()
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for i, q := range panelQueries(t) {
		rules = append(rules, rule{Record: "panel:" + strconv.Itoa(i), Expr: q.expr})
	}
	promtool(t, "", "check", "rules", "--lint=none", ruleFile(t, map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}}))
}

// Every query finds something where each metric has series: of two workers, and of
// two resources each. What shows only when a query is made, such as several series
// on the one side of a match, is found here.
func TestDashboardsFindWhatThereIs(t *testing.T) {
	t.Parallel()
	page := documentedMetrics(t)
	type test map[string]any
	var tests []test
	for _, q := range panelQueries(t) {
		tests = append(tests, test{
			"name": q.where, "interval": "1m", "input_series": seriesFor(t, page, q),
			"promql_expr_test": []any{map[string]any{
				"expr": "count(" + q.expr + ") > bool 0", "eval_time": "30m", "exp_samples": []any{map[string]any{"labels": "{}", "value": 1}},
			}},
		})
	}
	promtool(t, "", "test", "rules", ruleFile(t, map[string]any{"evaluation_interval": "1m", "tests": tests}))
}

// series is a series of promtool's tests.
type series struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// documentedMetrics are the labels of the metrics on the reference pages.
func documentedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{
		"process_resident_memory_bytes": nil, "temporal_activity_schedule_to_start_latency_seconds": {"task_queue"},
		"temporal_workflow_task_schedule_to_start_latency_seconds": {"task_queue"},
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [a-z]+ \\| (.*?) \\| .* \\|$")
	for _, page := range []string{"../../docs/reference/metrics.md", "../../docs/how-to/reporting.md"} {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range row.FindAllStringSubmatch(string(b), -1) {
			out[m[1]] = strings.FieldsFunc(strings.ReplaceAll(m[2], "`", ""), func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return out
}

var (
	literal  = regexp.MustCompile(`"[^"]*"`)
	named    = regexp.MustCompile(`\b(?:tollgate|gardener|temporal|process)_[a-z_]+`)
	selector = regexp.MustCompile(`\b([a-z_]+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|=)"([^"]*)"`)
)

// seriesFor makes the series that a query asks for.
func seriesFor(t *testing.T, page map[string][]string, q panelQuery) (out []series) {
	t.Helper()
	// What each selector of a metric wants.
	wants := map[string][]map[string]string{}
	joined := map[string]string{} // of all metrics in it
	for _, n := range named.FindAllString(literal.ReplaceAllString(q.expr, ""), -1) {
		if _, ok := wants[n]; !ok {
			wants[n] = []map[string]string{{}}
		}
	}
	for _, s := range selector.FindAllStringSubmatch(q.expr, -1) {
		want := map[string]string{}
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			want[m[1]] = m[3]
			if m[2] == "=~" {
				first, _, _ := strings.Cut(m[3], "|")
				want[m[1]] = strings.ReplaceAll(first, ".*", "x")
			} else if m[1] == "stream" {
				joined[m[1]] = m[3]
			}
		}
		wants[s[1]] = append(wants[s[1]], want)
	}
	seen := map[string]bool{}
	for name, all := range wants {
		labels, ok := page[name]
		if base, is := strings.CutSuffix(name, "_bucket"); is && !ok {
			if labels, ok = page[base]; ok {
				labels = append(slices.Clone(labels), "le")
			}
		}
		if !ok {
			t.Errorf("%s: %s is on no page", q.where, name)
		}
		for _, want := range all {
			for _, instance := range []string{"a", "b"} {
				for _, id := range []string{"1", "2"} {
					text := name + `{instance="` + instance + `"`
					for _, l := range labels {
						v, set := want[l]
						switch {
						case set && v != "x":
						case l == "id" || l == "name":
							v = id
						case l == "le":
							v = map[string]string{"1": "1", "2": "+Inf"}[id]
						case !set:
							v = cmp.Or(joined[l], "x")
						}
						text += "," + l + `="` + v + `"`
					}
					if text += "}"; seen[text] {
						continue
					}
					seen[text] = true
					out = append(out, series{text, map[string]string{"a": "0+60x40", "b": "30+60x40"}[instance]})
				}
			}
		}
	}
	return out
}
