package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// known are the metrics that expressions may name.
type known map[string]metric

// metric finds a metric by the name of one of its series.
func (k known) metric(name string) (m metric, ok bool) {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if m, ok = k[strings.TrimSuffix(name, suffix)]; ok && strings.HasSuffix(name, suffix) && m.kind == "histogram" {
			return m, true
		}
	}
	m, ok = k[name]
	return m, ok
}

// labels are those of the series of a name, with those of every target.
func (k known) labels(name string) []string {
	m, _ := k.metric(name)
	l := append(strings.Split(m.labels, ", "), "job", "instance")
	if m.kind == "histogram" {
		l = append(l, "le")
	}
	return l
}

var (
	namePattern     = regexp.MustCompile(`\b(?:tollgate|gardener)_[a-z_]+`)
	selectorPattern = regexp.MustCompile(`\b((?:tollgate|gardener)_[a-z_]+)\{([^}]*)\}`)
	matcherPattern  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	// Labels that series are grouped by, matched by, and named by in a legend.
	groupPattern  = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([a-z_, ]*)\)`)
	legendPattern = regexp.MustCompile(`\{\{\s*([a-z_]+)\s*\}\}`)
	// The labels that label_join and label_replace make.
	madePattern = regexp.MustCompile(`,\s*"([a-z_]+)"\s*,\s*"[^"]*"\s*,\s*"[a-z_]+"`)
)

// check says what a text names that does not exist.
func (k known) check(text string) (wrong []string) {
	for _, n := range namePattern.FindAllString(text, -1) {
		if _, ok := k.metric(n); !ok {
			wrong = append(wrong, "there is no metric "+n)
		}
	}
	for _, m := range selectorPattern.FindAllStringSubmatch(text, -1) {
		for _, l := range matcherPattern.FindAllStringSubmatch(m[2], -1) {
			if has := k.labels(m[1]); !slices.Contains(has, l[1]) {
				wrong = append(wrong, m[1]+" has no label "+l[1]+", but "+strings.Join(has, ", "))
			}
		}
	}
	return wrong
}

// checkQuery says which labels of a panel's query, and of its legend, none of its
// metrics has. Queries of other programs' metrics are theirs to know.
func (k known) checkQuery(expr, legend string) (wrong []string) {
	names := namePattern.FindAllString(expr, -1)
	if len(names) == 0 {
		return nil
	}
	var has, used []string
	for _, n := range names {
		has = append(has, k.labels(n)...)
	}
	for _, m := range madePattern.FindAllStringSubmatch(expr, -1) {
		has = append(has, m[1])
	}
	for _, m := range groupPattern.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			if l = strings.TrimSpace(l); l != "" {
				used = append(used, l)
			}
		}
	}
	for _, m := range legendPattern.FindAllStringSubmatch(legend, -1) {
		used = append(used, m[1])
	}
	for _, l := range used {
		if !slices.Contains(has, l) {
			wrong = append(wrong, expr+": no metric in it has a label "+l)
		}
	}
	return wrong
}

func knownMetrics(t *testing.T) known {
	t.Helper()
	k := known{}
	for _, m := range append(own(t), documented(t, "../../docs/how-to/reporting.md")...) {
		k[m.name] = m
	}
	return k
}

// Alerts and dashboards name metrics and labels that exist.
func TestDeployedExpressionsNameRealMetrics(t *testing.T) {
	t.Parallel()
	k := knownMetrics(t)
	boards, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(boards) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	rules, err := filepath.Glob("../../deploy/prometheus/*.yaml")
	if err != nil || len(rules) == 0 {
		t.Fatalf("no alert rules: %v", err)
	}
	used, queries := map[string]bool{}, 0
	for _, file := range append(boards, rules...) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		if strings.HasSuffix(file, ".json") {
			text = strings.ReplaceAll(text, `\"`, `"`)
			var board struct {
				Panels []struct {
					Title   string
					Targets []struct{ Expr, LegendFormat string }
				}
			}
			if err := json.Unmarshal(raw, &board); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, p := range board.Panels {
				for _, q := range p.Targets {
					queries++
					for _, w := range k.checkQuery(q.Expr, q.LegendFormat) {
						t.Errorf("%s: panel %q: %s", file, p.Title, w)
					}
				}
			}
		}
		for _, w := range k.check(text) {
			t.Errorf("%s: %s", file, w)
		}
		for _, n := range namePattern.FindAllString(text, -1) {
			m, _ := k.metric(n)
			used[m.name] = true
		}
	}
	if len(used) < 60 || queries < 60 {
		t.Errorf("only %d metrics are used, in %d queries", len(used), queries)
	}
}

// What the check is there to find.
func TestExpressionsOfWrongNamesAreFound(t *testing.T) {
	t.Parallel()
	k := known{
		"tollgate_things":           {name: "tollgate_things", kind: "gauge", labels: "source, id"},
		"tollgate_duration_seconds": {name: "tollgate_duration_seconds", kind: "histogram", labels: "route"},
		"gardener_shoot_info":       {name: "gardener_shoot_info", kind: "gauge", labels: "source, project"},
	}
	for _, tc := range []struct {
		expr, legend string
		wrong        int
	}{
		{`sum by (source) (tollgate_things{id!="", instance="a"})`, "{{source}}", 0},
		{`histogram_quantile(0.9, sum by (le, route) (rate(tollgate_duration_seconds_bucket{le="1"}[5m])))`, "", 0},
		{`up`, "{{whatever}}", 0},
		{`max by (both) (label_join(tollgate_things, "both", "/", "source", "id"))`, "{{both}}", 0},
		{`max by (other) (label_join(tollgate_things, "both", "/", "source", "id"))`, "", 1},
		{`tollgate_things_total`, "", 1},
		{`gardener_shot_info`, "", 1},
		{`tollgate_things_bucket`, "", 1},
		{`tollgate_things{name="x"}`, "", 1},
		{`sum by (project) (tollgate_things)`, "", 1},
		{`tollgate_things * on (source) group_left (project) gardener_shoot_info`, "{{project}} {{ region }}", 1},
	} {
		if got := append(k.check(tc.expr), k.checkQuery(tc.expr, tc.legend)...); len(got) != tc.wrong {
			t.Errorf("%s: found %q, want %d", tc.expr, got, tc.wrong)
		}
	}
}
