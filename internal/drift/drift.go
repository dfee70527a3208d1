// Package drift compares the fleet table of a provider with one listing of it
// and says which proxies should look at what. It is pure: a function of the
// table, the listing and the time at which the listing began.
//
// Nothing it says is a fact about an instance, since table and listing are never
// of the same moment. Each proxy verifies an observation with a call of its own
// before it acts; the rules here keep the false ones rare.
package drift

import (
	"cmp"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Lag is how long before the listing a row must have come to rest, and an
// instance must have been created, to be compared. It covers listings that lag
// behind the truth and clocks that differ.
const Lag = time.Minute

// Input is what is compared.
type Input struct {
	// Installation is the id that our marks carry.
	Installation string
	// ListedAt is when the listing began. The rows must have been read after the
	// listing ended, so that whatever changed in between is in them.
	ListedAt time.Time
	// Listing is complete. Instances of other installations are ignored.
	Listing []provider.Instance
	// Rows are those of all shards, in any order.
	Rows []api.FleetRow
}

// Compare returns the differences, ordered by uid, kind and instance. A proxy
// gets at most one of Missing, Stopped and Moved, one Extra for each instance,
// and one ReportWanted.
func Compare(in Input) []api.FleetObservation {
	rows := byUID(in.Rows)
	listed := make(map[provider.InstanceID]provider.Instance, len(in.Listing))
	for _, i := range in.Listing {
		if in.Installation != "" && i.Marks.Installation == in.Installation {
			listed[i.ID] = i
		}
	}
	var out []api.FleetObservation
	for _, row := range rows {
		if o, ok := compareRow(in.ListedAt, row, listed); ok {
			out = append(out, observe(row.UID, row.Namespace, row.Name, o, in.ListedAt))
		}
	}
	wanted := map[string]bool{}
	for _, i := range listed {
		m := i.Marks
		if m.UID == "" || m.Namespace == "" || m.Proxy == "" || !atRest(i.CreatedAt, in.ListedAt) {
			continue
		}
		row, known := rows[m.UID]
		switch {
		case !known && !wanted[m.UID]:
			wanted[m.UID] = true
			out = append(out, observe(m.UID, m.Namespace, m.Proxy, api.Observation{Kind: api.ObservedReportWanted}, in.ListedAt))
		case known && !owns(row, i) && atRest(row.Since, in.ListedAt):
			out = append(out, observe(m.UID, row.Namespace, row.Name, api.Observation{
				Kind: api.ObservedExtra, InstanceID: i.ID, InstanceName: i.Name, Reason: rawState(i),
			}, in.ListedAt))
		}
	}
	slices.SortFunc(out, func(a, b api.FleetObservation) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Observation.Kind, b.Observation.Kind),
			cmp.Compare(a.Observation.InstanceID, b.Observation.InstanceID))
	})
	return out
}

// compareRow looks at the instance that a proxy runs on. Rows in other phases
// are left to their proxies, who wait for their instances themselves.
func compareRow(listedAt time.Time, row api.FleetRow, listed map[provider.InstanceID]provider.Instance) (api.Observation, bool) {
	if row.Phase != api.PhaseRunning || row.InstanceID == "" || !atRest(row.Since, listedAt) {
		return api.Observation{}, false
	}
	o := api.Observation{InstanceID: row.InstanceID, InstanceName: row.InstanceName}
	i, ok := listed[row.InstanceID]
	switch {
	case !ok:
		o.Kind = api.ObservedMissing
	case i.State == provider.StateStopped, i.State == provider.StateTerminated:
		o.Kind, o.Reason = api.ObservedStopped, rawState(i)
	case i.State == provider.StateRunning && i.IP.IsValid() && i.IP.String() != row.IP:
		o.Kind, o.Message = api.ObservedMoved, "the address is "+i.IP.String()+" now"
	default:
		return api.Observation{}, false
	}
	return o, true
}

// atRest reports whether t lies long enough before the listing. An unknown time
// does not hold anything back.
func atRest(t, listedAt time.Time) bool { return t.IsZero() || t.Add(Lag).Before(listedAt) }

func owns(row api.FleetRow, i provider.Instance) bool {
	return i.ID == row.InstanceID || i.Name == row.InstanceName || slices.Contains(row.Own, i.Name)
}

func rawState(i provider.Instance) string { return cmp.Or(i.RawState, string(i.State)) }

func observe(uid, namespace, name string, o api.Observation, at time.Time) api.FleetObservation {
	o.At = at
	return api.FleetObservation{UID: uid, Namespace: namespace, Name: name, Observation: o}
}

// byUID indexes rows. While a row moves between shards both may have it; the
// later report wins.
func byUID(rows []api.FleetRow) map[string]api.FleetRow {
	m := make(map[string]api.FleetRow, len(rows))
	for _, r := range rows {
		if old, ok := m[r.UID]; !ok || r.Seq > old.Seq {
			m[r.UID] = r
		}
	}
	return m
}

// Count counts observations by kind.
func Count(items []api.FleetObservation) map[string]int {
	var m map[string]int
	for _, i := range items {
		if m == nil {
			m = map[string]int{}
		}
		m[string(i.Observation.Kind)]++
	}
	return m
}

// Page returns the items whose uid comes after after, most of them at most, and
// the uid after which the next page starts; that is empty when this is the last
// page. All items of a uid are on one page, which may be longer for it. The
// items are ordered by uid.
func Page(items []api.FleetObservation, after string, most int) (page []api.FleetObservation, next string) {
	start, _ := slices.BinarySearchFunc(items, after, func(i api.FleetObservation, uid string) int {
		if i.UID <= uid && uid != "" {
			return -1
		}
		return 1
	})
	items = items[start:]
	if len(items) <= most {
		return items, ""
	}
	end := most
	for end < len(items) && items[end].UID == items[end-1].UID {
		end++
	}
	if end == len(items) {
		return items, ""
	}
	return items[:end], items[end-1].UID
}
