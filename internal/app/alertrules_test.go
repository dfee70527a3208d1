package app

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// Each alert is shown to fire, with all that it says, and not to fire.
// "make alerts-check" runs the tests of the rules.
func TestAlertRulesAreTested(t *testing.T) {
	t.Parallel()
	type texts struct{ Summary, Description string }
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Labels      struct{ Severity string }
				Annotations texts
			}
		}
	}
	readYAML(t, "../../deploy/prometheus/alerts.yaml", &rules)
	fires, quiet := map[string]bool{}, map[string]bool{}
	files, err := filepath.Glob("../../deploy/prometheus/*_test.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, file := range files {
		var f struct {
			Tests []struct {
				Cases []struct {
					Alert string `yaml:"alertname"`
					Want  []struct {
						Annotations texts `yaml:"exp_annotations"`
					} `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		readYAML(t, file, &f)
		for _, test := range f.Tests {
			for _, c := range test.Cases {
				if len(c.Want) == 0 {
					quiet[c.Alert] = true
				} else if a := c.Want[0].Annotations; a.Summary != "" && a.Description != "" {
					fires[c.Alert] = true
				}
			}
		}
	}
	n := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			switch {
			case !fires[r.Alert]:
				t.Errorf("no test shows %s firing, with summary and description", r.Alert)
			case !quiet[r.Alert]:
				t.Errorf("no test shows %s not firing", r.Alert)
			}
			if r.Annotations.Summary == "" || r.Annotations.Description == "" || r.Labels.Severity == "" {
				t.Errorf("%s lacks a summary, a description or a severity", r.Alert)
			}
			delete(fires, r.Alert)
			delete(quiet, r.Alert)
		}
	}
	if n < 30 {
		t.Errorf("only %d alerts", n)
	}
	for name := range fires {
		t.Errorf("a test is about %s, which does not exist", name)
	}
	for name := range quiet {
		t.Errorf("a test is about %s, which does not exist", name)
	}
}
