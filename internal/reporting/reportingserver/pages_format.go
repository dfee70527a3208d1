package reportingserver

import (
	"embed"
	"fmt"
	"html/template"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver/store"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

//go:embed pages
var pageFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"time": func(t any) string {
		switch t := t.(type) {
		case time.Time:
			return showTime(t)
		case *time.Time:
			return showTime(*t)
		}
		return ""
	},
	// path keeps an id within its part of a path, slashes included.
	"path": func(s any) string { return url.PathEscape(fmt.Sprint(s)) },
	"date": func(t time.Time) string { return t.Format(time.DateOnly) },
	"day": func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.Format(time.DateOnly)
	},
	"second":     func(t time.Time) string { return showTime(t.Truncate(time.Second)) },
	"duration":   duration,
	"unknowns":   unknowns,
	"unknownsOf": func(fields []string) string { return strings.Join(slices.Sorted(slices.Values(fields)), ", ") },
	// hours shows an amount of seconds with three digits after the point.
	"hours": func(a usage.Amount) string {
		return trimmed(new(big.Rat).Quo(a.Rat(), big.NewRat(3600, 1)))
	},
}).ParseFS(pageFiles, "pages/*.html"))

// duration shows seconds as hours, and as seconds what is less than a minute.
func duration(a usage.Amount) string {
	seconds := a.Rat()
	if seconds.Cmp(big.NewRat(60, 1)) < 0 {
		return trimmed(seconds) + " s"
	}
	return trimmed(seconds.Quo(seconds, big.NewRat(3600, 1))) + " h"
}

// trimmed has at most three digits after the point.
func trimmed(r *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(r.FloatString(3), "0"), ".")
}

// unknowns puts fields together that are unknown for equally long.
func unknowns(m map[string]usage.Amount) (lines []string) {
	by := map[usage.Amount][]string{}
	for _, field := range slices.Sorted(maps.Keys(m)) {
		by[m[field]] = append(by[m[field]], field)
	}
	for _, a := range slices.Sorted(maps.Keys(by)) {
		lines = append(lines, duration(a)+": "+strings.Join(by[a], ", "))
	}
	return lines
}

func showTime(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Nanosecond() == 0 && t.Second() == 0:
		return t.UTC().Format("2006-01-02 15:04")
	}
	return t.UTC().Format("2006-01-02 15:04:05.999")
}

const (
	monthOnly = "2006-01"
	firstYear = 2000 // of events
)

// months are those around a period, for the way from one to the next.
type months struct {
	// Before and After are in the form 2026-03, empty where there can be no events.
	Before, After string
	// Name and Shown are set when the period is one month.
	Name, Shown string
	// Latest is the month of the event that came last.
	Latest string
}

func monthsOf(p usage.Period, latest []store.Event) months {
	first := time.Date(p.From.Year(), p.From.Month(), 1, 0, 0, 0, 0, time.UTC)
	var m months
	if before := first.AddDate(0, -1, 0); before.Year() >= firstYear {
		m.Before = before.Format(monthOnly)
	}
	if next := first.AddDate(0, 1, 0); !next.After(p.AsOf) {
		m.After = next.Format(monthOnly)
	}
	if p.From.Equal(first) && p.To.Equal(first.AddDate(0, 1, 0)) {
		m.Name, m.Shown = first.Format("January 2006"), first.Format(monthOnly)
	}
	if len(latest) > 0 {
		m.Latest = latest[0].Event.Time.Format(monthOnly)
	}
	return m
}
