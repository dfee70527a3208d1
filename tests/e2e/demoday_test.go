//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/devserver/demoday"
	"github.com/tollgate-dev/tollgate/internal/devserver/demoday/daytest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// TestDemoDay is the tutorial of the first toll: tollgate-dev with the simulated
// cloud, one command, and the events and figures of the page's tables, in what is
// printed and over the API. Read again from the beginning, nothing changes.
func TestDemoDay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tutorial := daytest.Read(t, filepath.Join("..", "..", "docs", "tutorials", "first-toll.md"))
	p := s.start("--with", "hetzner-sim")
	p.says(devStart, "Ctrl-C stops.")
	state := filepath.Join(s.dir, "state")
	cmd := exec.Command(bins(t, "tollgate-dev"), "demo-day", "--state-dir", state)
	cmd.Dir, cmd.Env = s.dir, cleanEnv()
	out := runProgram(t, cmd).want(t, 0)
	if got := printedUsage(t, out.stdout); !cmp.Equal(got, tutorial.Usage()) {
		t.Errorf("printed, tutorial:\n%s", cmp.Diff(got, tutorial.Usage()))
	}
	client, err := reporting.New(reporting.Options{URL: s.url("reporting-port", ""), Token: func(context.Context) (provider.Sensitive, error) {
		b, err := os.ReadFile(filepath.Join(state, "reporting-token"))
		return provider.NewSensitive(bytes.TrimSpace(b)), err
	}})
	if err != nil {
		t.Fatal(err)
	}
	project, ok, err := client.FindProject(t.Context(), string(event.Hetzner), demoday.Account)
	if err != nil || !ok {
		t.Fatalf("the project of the day: %v, %v", ok, err)
	}
	check := func() {
		t.Helper()
		usage, err := client.Usage(t.Context(), project.ID, demoday.From, demoday.To, demoday.To)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(demoday.Rows(usage), tutorial.Usage()); diff != "" {
			t.Errorf("usage, tutorial:\n%s", diff)
		}
		var events []event.Event
		if err := client.Events(t.Context(), api.ListEventsParams{ProjectID: &project.ID}, func(e api.StoredEvent) bool {
			events = append(events, e.Event)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(events, func(a, b event.Event) int { return a.Time.Compare(b.Time) })
		var lines []daytest.Event
		for _, e := range events {
			lines = append(lines, daytest.Event{Time: e.Time, Type: string(e.Type)})
		}
		if diff := cmp.Diff(lines, tutorial.Events()); diff != "" {
			t.Errorf("events, tutorial:\n%s", diff)
		}
	}
	check()

	// The page's own words on reading it once more.
	lines := s.printed(p)
	env := lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "export ") })]
	cli := bins(t, "tollgate")
	s.shell(env, cli+" cursor rewind hetzner-day --to 2026-03-13T00:00:00Z").want(t, 0)
	poll(t, time.Minute, func() string {
		got := s.shell(env, cli+" cursor get hetzner-day/server").want(t, 0).stdout
		if regexp.MustCompile(`Phase: +CaughtUp`).MatchString(got) && strings.Contains(got, "duplicates 15") {
			return ""
		}
		return got
	})
	check()
	p.interrupt()
	if code := p.ended(time.Minute); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// printedUsage reads the table that demo-day prints: its columns begin where their
// headings do.
func printedUsage(t testing.TB, out string) (rows [][]string) {
	t.Helper()
	headings := []string{"RESOURCE", "STATE", "KIND", "SECONDS", "AMOUNTS X SECONDS", "UNKNOWN SECONDS"}
	var at []int
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, headings[0]):
			for _, h := range headings {
				at = append(at, strings.Index(line, h))
			}
		case strings.TrimSpace(line) == "":
			if len(rows) > 0 {
				return rows
			}
		case len(at) > 0:
			var row []string
			for i, from := range at {
				to := len(line)
				if i+1 < len(at) {
					to = min(to, at[i+1])
				}
				row = append(row, strings.TrimSpace(line[min(from, to):to]))
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("no usage in\n%s", out)
	}
	return rows
}
