// Package daytest reads what the tutorial of the scripted day says, so that tests
// hold the program against it.
package daytest

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver/demoday"
)

// Page is a page of the documentation.
type Page struct {
	tb    testing.TB
	lines []string
}

// Read reads a page, given its path.
func Read(tb testing.TB, path string) Page {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return Page{tb, strings.Split(string(b), "\n")}
}

// table returns the rows of the table with these headings.
func (p Page) table(headings ...string) (rows [][]string) {
	p.tb.Helper()
	in := false
	for _, l := range p.lines {
		cells := strings.Split(strings.Trim(strings.TrimSpace(l), "|"), "|")
		for i := range cells {
			cells[i] = strings.Join(strings.Fields(cells[i]), " ")
		}
		switch {
		case !strings.HasPrefix(l, "|"):
			in = false
		case in && !strings.HasPrefix(cells[0], "---"):
			rows = append(rows, cells)
		case strings.Join(cells, "|") == strings.Join(headings, "|"):
			in = true
		}
	}
	if len(rows) == 0 {
		p.tb.Fatalf("the page has no table with the headings %v", headings)
	}
	return rows
}

// Usage returns the rows of the table of totals, as demoday.Rows has them.
func (p Page) Usage() [][]string {
	p.tb.Helper()
	return p.table("Resource type", "State", "Words", "Seconds", "Amounts", "Unknown seconds")
}

// Event is an event as the table of what happened has it.
type Event struct {
	Time time.Time
	Type string
}

var inBackquotes = regexp.MustCompile("`([^`]+)`")

// Events returns the events of the table of what happened, in its order.
func (p Page) Events() (events []Event) {
	p.tb.Helper()
	for _, row := range p.table("Time", "What", "Events") {
		text, day := row[0], demoday.From
		if rest, before := strings.CutPrefix(text, "13 March, "); before {
			text, day = rest, day.AddDate(0, 0, -1)
		}
		layout := "15:04:05"[:len(text)]
		at, err := time.Parse(layout, text)
		if err != nil {
			p.tb.Fatalf("the time %q of a row: %v", row[0], err)
		}
		for _, m := range inBackquotes.FindAllStringSubmatch(row[2], -1) {
			events = append(events, Event{day.Add(at.Sub(at.Truncate(24 * time.Hour))), m[1]})
		}
	}
	return events
}
