package openstack

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// volume is what we read of a volume. Everything but the id may be missing.
type volume struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Status      string `json:"status"`
	Project     string `json:"os-vol-tenant-attr:tenant_id"`
	Zone        string `json:"availability_zone"`
	Kind        string `json:"volume_type"`
	Size        int    `json:"size"` // GiB
	Created     string `json:"created_at"`
	Updated     string `json:"updated_at"`
	Attachments []struct {
		Server string `json:"server_id"`
	} `json:"attachments"`
	Metadata map[string]string `json:"metadata"`

	created, updated time.Time
}

func readVolume(raw json.RawMessage) volume {
	v := source.Loose[volume](raw)
	v.created, v.updated = parse(v.Created), parse(v.Updated)
	return v
}

func (v volume) size() event.Size {
	size := event.Size{}
	if v.Size > 0 {
		size[event.SizeGB] = event.Int(v.Size)
	}
	if v.Kind != "" {
		size[event.Kind] = event.Text(v.Kind)
	}
	return size
}

// making reports whether the volume is not there yet. Source: cinder,
// objects/fields.py VolumeStatus (Zed).
func (v volume) making() bool { return v.Status == "creating" || v.Status == "downloading" }

func volumes() spec {
	return spec{
		Kind: source.Kind{Type: event.Volume, Verbs: []string{source.VerbCreate, source.VerbDelete, source.VerbResize},
			Silent: []string{source.VerbDelete, source.VerbResize}},
		path: "volumes/detail", key: "volumes",
		client: func(r *cloud.Region) *gophercloud.ServiceClient { return r.Volume },
		all: func(allProjects bool, _ string) url.Values {
			q := url.Values{"sort": {"created_at:asc,id:asc"}}
			if allProjects {
				q.Set("all_tenants", "1")
			}
			return q
		},
		take:   takeVolumes,
		reopen: reopenVolume,
		derive: deriveVolume,
		find: func(ctx context.Context, r *reading, id string) (string, bool, error) {
			v, err := r.getVolume(ctx, id)
			if err != nil || v == nil {
				return "", false, err
			}
			return v.Project, true, nil
		},
		existing: existingVolume,
	}
}

// changes are those of a volume's life that can be seen: its beginning and, since
// volumes only ever grow, that it came to be of its size.
func (v volume) changes() (born, grown change) {
	size := v.size()
	born = change{verb: source.VerbCreate, id: event.ChangeCreate, at: v.created, by: v.created, size: size, sized: true}
	grown = change{verb: source.VerbResize, id: event.Change("size", strconv.Itoa(v.Size)), at: latest(v.created, v.updated),
		by: latest(v.created, v.updated), size: size, sized: true}
	return born, grown
}

func takeVolumes(ctx context.Context, r *reading, entries []entry) error {
	var grown []volume
	for _, e := range entries {
		v := readVolume(e.raw)
		open := r.isOpen(v.ID)
		switch {
		case v.created.IsZero() || v.Status == "":
			r.close(v.ID)
			r.reject(v.ID, "the volume does not say when it was made, or lacks its status")
			continue
		case r.s.o.AllProjects && v.Project == "":
			r.close(v.ID)
			r.reject(v.ID, "the volume does not say which project it is of")
			continue
		case latest(v.created, v.updated).Before(r.w.From) && !open:
			continue // it is listed because it exists
		case v.making():
			r.hold(v.ID)
			continue
		case v.Status == "error" && (open || v.created.After(r.w.From)):
			// It could not be made, as far as anybody can tell.
			r.close(v.ID)
			r.out.Ignored++
			continue
		}
		r.close(v.ID)
		born, _ := v.changes()
		sub := subject{v.ID, v.Name, v.Project}
		r.sizes[sizeKey{r.s.accountOf(v.Project), v.ID}] = born.size
		switch {
		case r.says(sub, born, open):
			r.say(sub, born, nil)
		case v.Size > 0:
			grown = append(grown, v)
		default:
			r.out.Ignored++
		}
	}
	return sayGrown(ctx, r, grown)
}

// sayGrown says which volumes have another size than was reported.
func sayGrown(ctx context.Context, r *reading, all []volume) error {
	if len(all) == 0 {
		return nil
	}
	subs := make([]subject, len(all))
	for i, v := range all {
		subs[i] = subject{v.ID, v.Name, v.Project}
	}
	was, err := r.s.was(ctx, subs)
	if err != nil {
		return err
	}
	for i, v := range all {
		_, ch := v.changes()
		before, known := was[v.ID]
		if old, ok := before[event.SizeGB]; !known || !ok || old.Equal(ch.size[event.SizeGB]) || !r.says(subs[i], ch, false) {
			r.out.Ignored++
			continue
		}
		r.say(subs[i], ch, before)
	}
	return nil
}

// getVolume reads a volume, nil when there is none.
func (r *reading) getVolume(ctx context.Context, id string) (*volume, error) {
	c := r.region.Volume
	var doc struct {
		Volume json.RawMessage `json:"volume"`
	}
	if _, err := c.Get(ctx, c.ServiceURL("volumes", id), &doc, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}); err != nil {
		if cloud.NotThere(err) {
			return nil, nil
		}
		return nil, err
	}
	if v := readVolume(doc.Volume); v.ID == id {
		return &v, nil
	}
	return nil, cloud.ErrAnswer
}

func reopenVolume(ctx context.Context, r *reading, id string) (gone bool, err error) {
	v, err := r.getVolume(ctx, id)
	if err != nil || v == nil {
		return err == nil, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return false, err
	}
	return false, takeVolumes(ctx, r, []entry{{id, raw}})
}

func deriveVolume(ctx context.Context, r *reading, id string) error {
	v, err := r.getVolume(ctx, id)
	if err != nil || v == nil || v.created.IsZero() || v.making() {
		return err
	}
	sub := subject{v.ID, v.Name, v.Project}
	born, grown := v.changes()
	r.say(sub, born, nil)
	r.say(sub, grown, nil)
	return nil
}

func existingVolume(raw json.RawMessage) (source.Existing, string) {
	v := readVolume(raw)
	x := source.Existing{
		Resource: event.Resource{Name: v.Name}, CreatedAt: v.created, Coming: v.making(), Size: v.size(),
		// One that could not be made was never there, and one that cannot be deleted is.
		Leaving: v.Status == "deleting" || v.Status == "error_deleting",
		Info:    map[string]string{infoStatus: strings.ToLower(v.Status), infoZone: v.Zone},
	}
	if v.Status == "error" {
		x.Coming = true
	}
	for _, a := range v.Attachments {
		if a.Server != "" {
			x.Info[infoServer] = a.Server
		}
	}
	if m, managed := provider.MarksFromLabels(v.Metadata); managed {
		x.Marks = &m
	}
	return x, v.Project
}
