package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/sync/errgroup"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Microversions of the compute API. Actions have the time of their end from 2.58
// (Queens) on; servers of cells that cannot be reached show from 2.69 (Stein) on.
const (
	microActions = "2.58"
	microCells   = "2.69"
)

// server is what we read of a server. Everything but the id may be missing.
type server struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	Project    string `json:"tenant_id"`
	Task       string `json:"OS-EXT-STS:task_state"`
	Zone       string `json:"OS-EXT-AZ:availability_zone"`
	Created    string `json:"created"`
	Updated    string `json:"updated"`
	Launched   string `json:"OS-SRV-USG:launched_at"`
	Terminated string `json:"OS-SRV-USG:terminated_at"`
	Flavor     struct {
		Name      string `json:"original_name"`
		VCPUs     int    `json:"vcpus"`
		RAM       int    `json:"ram"`       // MiB
		Disk      *int   `json:"disk"`      // GiB, the root disk
		Ephemeral int    `json:"ephemeral"` // GiB
	} `json:"flavor"`
	// Image is an object, or "" when the server boots from a volume.
	Image    json.RawMessage   `json:"image"`
	Metadata map[string]string `json:"metadata"`

	created, updated, launched, terminated time.Time
}

func parse(text string) time.Time { return cloud.ParseTime(text) }

func readServer(raw json.RawMessage) server {
	v := source.Loose[server](raw)
	v.created, v.updated, v.launched, v.terminated = parse(v.Created), parse(v.Updated), parse(v.Launched), parse(v.Terminated)
	return v
}

// image is the id of the image, "" for a server that boots from a volume.
func (v server) image() string {
	var i struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(v.Image, &i) // "" is no object
	return i.ID
}

// size leaves out what the service left out. The disk is the local one: a server
// that boots from a volume has only the flavor's ephemeral disk, and the volume is
// counted as such.
func (v server) size() event.Size {
	f, size := v.Flavor, event.Size{}
	if f.VCPUs > 0 {
		size[event.VCPUs] = event.Int(f.VCPUs)
	}
	if f.RAM > 0 {
		size[event.RAMGB] = event.Float(math.Round(float64(f.RAM)/1024*1000) / 1000)
	}
	if f.Disk != nil {
		disk := f.Ephemeral
		if v.image() != "" {
			disk += *f.Disk
		}
		size[event.DiskGB] = event.Int(disk)
	}
	if f.Name != "" {
		size[event.Flavor] = event.Text(f.Name)
	}
	return size
}

// state is empty for what is between two states, or says nothing.
func (v server) state() event.State {
	switch v.Status {
	case "ACTIVE", "PAUSED", "RESCUE", "PASSWORD":
		return event.Active
	case "SHUTOFF", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED":
		return event.Off
	}
	return ""
}

func servers() spec {
	return spec{
		Kind: source.Kind{Type: event.Server, Verbs: []string{
			source.VerbCreate, source.VerbDelete, source.VerbResize, source.VerbPowerOn, source.VerbPowerOff, source.VerbRestore}},
		path: "servers/detail", key: "servers",
		client: func(r *cloud.Region) *gophercloud.ServiceClient { return r.Compute },
		all: func(allProjects bool, _ string) url.Values {
			q := url.Values{"sort_key": {"created_at", "uuid"}, "sort_dir": {"asc", "asc"}}
			if allProjects {
				q.Set("all_tenants", "1")
			}
			return q
		},
		changed: func(q url.Values, from time.Time) {
			if from.IsZero() {
				from = time.Unix(0, 0)
			}
			q.Set("changes-since", from.UTC().Format(time.RFC3339))
		},
		adrift: func(raw json.RawMessage) bool {
			v := readServer(raw)
			return v.Status == "BUILD" && v.Task == "scheduling"
		},
		take:   takeServers,
		reopen: reopenServer,
		forgot: forgotServer,
		derive: deriveServer,
		find: func(ctx context.Context, r *reading, id string) (string, bool, error) {
			v, err := r.get(ctx, id)
			if err != nil || v == nil || v.over() {
				return "", false, err
			}
			return v.Project, true, nil
		},
		existing: existingServer,
	}
}

// atOnce is how many servers' actions are read at the same time.
const atOnce = 8

func takeServers(ctx context.Context, r *reading, entries []entry) error {
	all := make([]server, len(entries))
	acts := make([][]action, len(entries))
	var g errgroup.Group
	g.SetLimit(atOnce)
	var mu sync.Mutex
	var first error
	for i, e := range entries {
		all[i] = readServer(e.raw)
		if all[i].launched.IsZero() {
			continue // it never ran: nothing that was done to it counts
		}
		g.Go(func() error {
			mu.Lock()
			failed := first != nil
			mu.Unlock()
			if failed {
				return nil
			}
			list, _, err := r.actions(ctx, e.id)
			if acts[i] = list; err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
			return nil
		})
	}
	_ = g.Wait() // they all give nil
	if first != nil {
		return first
	}
	for i := range all {
		if err := takeServer(ctx, r, all[i], acts[i]); err != nil {
			return err
		}
	}
	return nil
}

func takeServer(ctx context.Context, r *reading, v server, acts []action) error {
	open := r.isOpen(v.ID)
	switch {
	case v.created.IsZero() || v.updated.IsZero() || v.Status == "":
		r.close(v.ID)
		r.reject(v.ID, "the server lacks its status, or says neither when it was made nor when it changed")
		return nil
	case r.s.o.AllProjects && v.Project == "":
		r.close(v.ID)
		r.reject(v.ID, "the server does not say which project it is of")
		return nil
	case v.Status != "DELETED" && (v.Status == "BUILD" || v.Task != ""):
		r.hold(v.ID)
	default:
		r.close(v.ID)
	}
	if v.Status == "DELETED" || r.at.Witness == "" {
		r.at.Witness, r.at.Proved = v.ID, r.begun
	}
	sub := subject{v.ID, v.Name, v.Project}
	news := 0
	var was event.Size
	for _, ch := range v.history(acts) {
		if !r.says(sub, ch, open && ch.verb == source.VerbCreate) {
			if ch.sized {
				was = ch.size
			}
			continue
		}
		if news++; ch.verb == source.VerbResize && was == nil {
			known, err := r.s.was(ctx, []subject{sub})
			if err != nil {
				return err
			}
			was = known[v.ID]
		}
		r.say(sub, ch, was)
		if ch.sized {
			was = ch.size
			r.sizes[sizeKey{r.s.accountOf(sub.project), sub.id}] = ch.size
		}
	}
	if news == 0 {
		r.out.Ignored++
	}
	return nil
}

// actions reads a server's list of actions, the newest first. Those of a server
// that is deleted can be read until the cloud forgets it.
func (r *reading) actions(ctx context.Context, id string) (all []action, there bool, err error) {
	c := r.region.Compute
	const limit = 500
	seen := map[string]bool{}
	for marker := ""; ; {
		q := url.Values{"limit": {strconv.Itoa(limit)}}
		if marker != "" {
			q.Set("marker", marker)
		}
		var doc struct {
			Actions *[]json.RawMessage `json:"instanceActions"`
			Links   json.RawMessage    `json:"links"`
		}
		if _, err := c.Get(ctx, c.ServiceURL("servers", id, "os-instance-actions")+"?"+q.Encode(), &doc, nil); err != nil {
			if cloud.NotThere(err) {
				return nil, false, nil
			}
			return nil, false, err
		}
		if doc.Actions == nil {
			return nil, false, cloud.ErrAnswer
		}
		fresh := 0
		for _, raw := range *doc.Actions {
			a := source.Loose[action](raw)
			marker = a.Request
			one := a.Request + " " + a.Name // a delete confirms a resize with its own request
			if seen[one] {
				continue
			}
			seen[one] = true
			fresh++
			all = append(all, a)
		}
		if !cloud.HasNext(doc.Links) && len(*doc.Actions) < limit || fresh == 0 {
			return all, true, nil
		}
	}
}

// get reads a server, nil when there is none that is not deleted.
func (r *reading) get(ctx context.Context, id string) (*server, error) {
	c := r.region.Compute
	var doc struct {
		Server json.RawMessage `json:"server"`
	}
	if _, err := c.Get(ctx, c.ServiceURL("servers", id), &doc, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}); err != nil {
		if cloud.NotThere(err) {
			return nil, nil
		}
		return nil, err
	}
	if v := readServer(doc.Server); v.ID == id {
		return &v, nil
	}
	return nil, cloud.ErrAnswer
}

func reopenServer(ctx context.Context, r *reading, id string) (gone bool, err error) {
	v, err := r.get(ctx, id)
	if err == nil && v == nil {
		v, err = r.deleted(ctx, id)
	}
	if err != nil || v == nil {
		return err == nil, err
	}
	acts, _, err := r.actions(ctx, id)
	if err != nil {
		return false, err
	}
	return false, takeServer(ctx, r, *v, acts)
}

func forgotServer(ctx context.Context, r *reading, id string) (bool, error) {
	_, there, err := r.actions(ctx, id)
	return !there, err
}

// deleted finds a server that is deleted, nil when the cloud has forgotten it. It
// is listed among what has changed at the time of its delete.
func (r *reading) deleted(ctx context.Context, id string) (*server, error) {
	acts, there, err := r.actions(ctx, id)
	if err != nil || !there {
		return nil, err
	}
	var from time.Time
	for _, a := range acts {
		if t := parse(a.Start); t.After(from) {
			from = t
		}
	}
	q, err := r.s.query(ctx)
	if err != nil {
		return nil, err
	}
	r.s.kind.changed(q, from.Add(-r.s.o.Overlap))
	var found *server
	errFound := errors.New("found")
	err = cloud.Walk(ctx, r.region.Compute, "servers/detail", "servers", q, r.s.o.PageSize, func(p cloud.Page) error {
		for i := range p.IDs {
			if p.IDs[i] == id {
				v := readServer(p.Entries[i])
				found = &v
				return errFound
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return nil, err
	}
	return found, nil
}

func deriveServer(ctx context.Context, r *reading, id string) error {
	gone, err := reopenServer(ctx, r, id)
	if gone || err != nil {
		return err // nothing was said
	}
	return nil
}

// at returns the clients of a region, with the compute service's microversion
// agreed on.
func (s *Source) at(ctx context.Context, name string) (*cloud.Region, error) {
	r, err := s.cloud.At(ctx, name)
	if err != nil || s.kind.Type != event.Server {
		return r, err
	}
	if r, err = r.Speaking(ctx, microCells, microActions); err != nil {
		return nil, err
	}
	if r.Compute.Microversion == cloud.MicroBase {
		return nil, cloud.BadConfig("the compute service of region %q is too old: the source needs microversion %s, which came with release Queens (2018)", r.Name, microActions)
	}
	return r, nil
}
