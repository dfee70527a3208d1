package demoday

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
)

// Rows are the totals of a usage as the tables of the docs have them: resource
// type, state, words, seconds, amounts, unknown seconds.
func Rows(u api.Usage) (rows [][]string) {
	for _, t := range u.Totals {
		var words []string
		for _, v := range t.Words.All() {
			words = append(words, v.String())
		}
		rows = append(rows, []string{t.ResourceType, string(t.State), strings.Join(words, ", "), string(t.Seconds),
			amounts(t.Amounts), amounts(t.UnknownSeconds)})
	}
	return rows
}

func amounts(a api.Amounts) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, name+" "+string(a[name]))
	}
	return strings.Join(parts, ", ")
}

// WriteUsage prints the totals of a usage.
func WriteUsage(out io.Writer, u api.Usage) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "RESOURCE\tSTATE\tKIND\tSECONDS\tAMOUNTS X SECONDS\tUNKNOWN SECONDS") // Flush has the error
	for _, r := range Rows(u) {
		_, _ = fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}
