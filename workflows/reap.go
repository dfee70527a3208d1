package workflows

import (
	"strings"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// TypeReaper is the workflow that deletes what is old.
const TypeReaper = "Reaper"

// ReaperID is the workflow id of the runs of a schedule, which appends a time to
// it, and the schedule's id: the provider and what is selected.
func ReaperID(providerName string, sel provider.Selector) string {
	return ReaperPrefix + providerName + "/" + SelectorText(sel)
}

// ReaperPrefix starts the ids of all reapers and their schedules.
const ReaperPrefix = "reap/"

// SelectorText is a selector as people write it: "namespace=ci,proxy=nightly",
// or "all".
func SelectorText(sel provider.Selector) string {
	var terms []string
	for _, t := range []struct{ key, value string }{
		{"namespace", sel.Namespace}, {"proxy", sel.Proxy}, {"uid", sel.UID}, {"installation", sel.Installation},
	} {
		if t.value != "" {
			terms = append(terms, t.key+"="+t.value)
		}
	}
	if len(terms) == 0 {
		return "all"
	}
	return strings.Join(terms, ",")
}
