package openstack

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// downCells reports whether the compute service leaves out servers because their
// cell cannot be reached, by the number of servers, or of hosts, that it names. A
// list with pages leaves them out without a word. One without any query names them,
// as far as its answer has room beside those that can be reached, which is 1000 by
// default; the list of hosts, which is for administrators, always does. Where nobody
// can tell, the log says so once. Source: nova, servers.py _is_cell_down_supported,
// compute/api.py get_all and services.py (Zed).
func (s *Source) downCells(ctx context.Context, r *cloud.Region) (int, error) {
	if r.Compute.Microversion != microCells {
		s.blind.Do(func() {
			s.log.WarnContext(ctx, "the compute service cannot say whether it leaves out servers of cells that it cannot reach: that takes microversion "+microCells+
				"; their changes may be found by the inventory only", "region", r.Name)
		})
		return 0, nil
	}
	q := url.Values{}
	if s.o.AllProjects {
		q.Set("all_tenants", "1")
	}
	p, err := cloud.ReadPage(ctx, r.Compute, "servers", "servers", q)
	if err != nil {
		return 0, err
	}
	if down := unknown(p.Entries); down > 0 || !p.More {
		return down, nil
	}
	hosts, err := cloud.ReadPage(ctx, r.Compute, "os-services", "services", nil)
	if code := cloud.StatusOf(err); code == http.StatusForbidden || code == http.StatusNotFound {
		s.blind.Do(func() {
			s.log.WarnContext(ctx, "there are more servers than the compute service names on one page, so that nobody can say whether it leaves out some of cells that it cannot reach: "+
				"with the right to list compute services this can be told; else their changes may be found by the inventory only", "region", r.Name)
		})
		return 0, nil
	}
	return unknown(hosts.Entries), err
}

// unknown counts what the service knows nothing about.
func unknown(entries []json.RawMessage) (n int) {
	for _, raw := range entries {
		if source.Loose[server](raw).Status == "UNKNOWN" {
			n++
		}
	}
	return n
}
