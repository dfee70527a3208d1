package openstack_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

var twoRegions = []string{"RegionOne", "RegionTwo"}

// divided is a cloud of two regions, and a source that reads both.
func divided(t *testing.T, kind event.ResourceType, change func(*openstack.Options)) (*platform, *openstack.Source) {
	t.Helper()
	p := simulated(t, kind, func(o *openstacksim.Options) { o.Regions = twoRegions })
	return p, p.open(t, sourcetest.OpenOptions{}, func(o *openstack.Options, _ *source.Config) {
		if o.Regions = twoRegions; change != nil {
			change(o)
		}
	})
}

// move has everything that is done from now on done in a region.
func (p *platform) move(tb testing.TB, region string) {
	tb.Helper()
	for service, u := range p.URLs {
		for _, r := range twoRegions {
			u = strings.Replace(u, "/"+r+"/", "/"+region+"/", 1)
		}
		p.URLs[service] = u
	}
	p.learn(tb)
}

// in makes a thing in a region.
func (p *platform) in(t *testing.T, region string) string {
	t.Helper()
	p.move(t, region)
	id := p.create(t, nil)
	p.settled(t, id, "ACTIVE", "available")
	return id
}

func (p *platform) breakRegion(region string, f openstacksim.Fault) (heal func()) {
	f.Path = "/" + region + "/.*"
	return p.Add(f)
}

func ids(items []source.Item) (out []string) {
	for _, i := range items {
		out = append(out, i.Event.Data.Resource.ID)
	}
	slices.Sort(out)
	return out
}

func sorted(ids ...string) []string { slices.Sort(ids); return ids }

// Several regions are one feed and one listing.
func TestRegions(t *testing.T) {
	t.Parallel()
	p, s := divided(t, event.FloatingIP, nil)
	first, second := p.in(t, "RegionOne"), p.in(t, "RegionTwo")
	items, c, _ := drain(t, s, "")
	got := map[string]string{}
	for _, i := range items {
		got[i.Event.Data.Resource.ID] = i.Event.Data.Region
		if again, err := s.Derive(t.Context(), i.Ref); err != nil || again[0].Event.ID != i.Event.ID {
			t.Errorf("%s: %v", i.Ref, err)
		}
	}
	if want := map[string]string{first: "RegionOne", second: "RegionTwo"}; !cmp.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if items, _, _ = drain(t, s, c); len(items) > 0 {
		t.Errorf("said again: %v", said(items))
	}
	if snap, err := s.List(t.Context()); err != nil || len(snap.Resources) != 2 {
		t.Errorf("listed %+v, %v", snap.Resources, err)
	}
}

// A region that cannot be read holds up no other, is said to be broken, and loses
// nothing: not even what happened in it before it broke, nor what it was in the
// middle of.
func TestBrokenRegion(t *testing.T) {
	t.Parallel()
	for _, kind := range []event.ResourceType{event.Server, event.Volume, event.FloatingIP} {
		for _, broken := range twoRegions {
			t.Run(string(kind)+"/"+broken, func(t *testing.T) {
				t.Parallel()
				well := twoRegions[0]
				if broken == well {
					well = twoRegions[1]
				}
				p, s := divided(t, kind, nil)
				_, c, page := drain(t, s, "")
				if len(page.Broken) > 0 || page.UpTo.IsZero() {
					t.Fatalf("broken %+v, up to %v", page.Broken, page.UpTo)
				}
				upTo := page.UpTo
				var theirs []string
				for range pageSize + 2 { // the second page fails
					theirs = append(theirs, p.in(t, broken))
				}
				heal := p.breakRegion(broken, openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: 503, Method: "GET"})
				for range 3 {
					p.pass(time.Minute)
					mine := p.in(t, well)
					var items []source.Item
					items, c, page = drain(t, s, c)
					if diff := cmp.Diff(ids(items), []string{mine}); diff != "" {
						t.Errorf("while %s is broken (-got +want):\n%s", broken, diff)
					}
					if len(page.Broken) != 1 || page.Broken[0].Part != broken || provider.ClassOf(page.Broken[0].Err) != provider.Transient {
						t.Errorf("broken: %+v", page.Broken)
					}
					if page.UpTo.Sub(upTo) > 30*time.Second {
						t.Errorf("up to %v, want %v: not all is read", page.UpTo, upTo)
					}
				}
				heal()
				p.pass(10 * time.Minute)
				s = p.open(t, sourcetest.OpenOptions{}, func(o *openstack.Options, _ *source.Config) { o.Regions = twoRegions })
				items, c, page := drain(t, s, c)
				if diff := cmp.Diff(ids(items), sorted(theirs...)); diff != "" || len(page.Broken) > 0 || !page.UpTo.After(upTo) {
					t.Errorf("broken %+v, up to %v (-got +want):\n%s", page.Broken, page.UpTo, diff)
				}
				if items, _, _ = drain(t, s, c); len(items) > 0 {
					t.Errorf("said again: %v", said(items))
				}
			})
		}
	}
}

// A region that breaks between two pages has said nothing of the page that failed,
// and goes on with it.
func TestRegionBreaksBetweenPages(t *testing.T) {
	t.Parallel()
	p, s := divided(t, event.Server, nil)
	var theirs []string
	for range 2*pageSize + 1 {
		theirs = append(theirs, p.in(t, "RegionTwo"))
	}
	page, err := s.Next(t.Context(), "")
	if err != nil || len(page.Items) != pageSize {
		t.Fatalf("%d items, %v", len(page.Items), err)
	}
	items, c := page.Items, page.Next
	// The page itself can be read, and the actions of one of its servers cannot.
	heal := p.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: 500, Skip: 2, Path: "/RegionTwo/.*/os-instance-actions"})
	page, err = s.Next(t.Context(), c)
	if err != nil || len(page.Items) > 0 || len(page.Broken) != 1 {
		t.Fatalf("%v, broken %+v, %v", said(page.Items), page.Broken, err)
	}
	heal()
	p.pass(time.Hour)
	more, _, _ := drain(t, s, page.Next)
	if diff := cmp.Diff(ids(append(items, more...)), sorted(theirs...)); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// When no region can be read that is an error without a page, and the next read asks
// all of them.
func TestAllRegionsBroken(t *testing.T) {
	t.Parallel()
	p, s := divided(t, event.FloatingIP, nil)
	p.in(t, "RegionOne")
	heal := p.breakRegion("Region...", openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: 429})
	for range 2 {
		page, err := s.Next(t.Context(), "")
		if provider.ClassOf(err) != provider.RateLimited || page.Next != "" || len(page.Broken) > 0 {
			t.Fatalf("%+v, %v", page, err)
		}
	}
	heal()
	if items, _, page := drain(t, s, ""); len(items) != 1 || len(page.Broken) > 0 {
		t.Errorf("%v, broken %+v", said(items), page.Broken)
	}
}

// A region that takes its time to fail is left alone for a multiple of that: the
// others are read meanwhile without waiting for it.
func TestSlowRegionIsLeftAlone(t *testing.T) {
	t.Parallel()
	p, s := divided(t, event.FloatingIP, func(o *openstack.Options) { o.CallTimeout = time.Second })
	_, c, _ := drain(t, s, "")
	heal := p.breakRegion("RegionTwo", openstacksim.Fault{Kind: openstacksim.FaultHang})
	defer heal()
	_, c, page := drain(t, s, c)
	if len(page.Broken) != 1 {
		t.Fatalf("broken %+v", page.Broken)
	}
	for range 3 {
		var items []source.Item
		mine := p.in(t, "RegionOne")
		if items, c, page = drain(t, s, c); !cmp.Equal(ids(items), []string{mine}) || len(page.Broken) != 1 {
			t.Errorf("%v, broken %+v", said(items), page.Broken)
		}
	}
}

// A read that is broken off is an error, whichever regions it has read.
func TestBrokenOffWithRegions(t *testing.T) {
	t.Parallel()
	p, s := divided(t, event.FloatingIP, nil)
	_, c, _ := drain(t, s, "")
	release := p.breakRegion("RegionTwo", openstacksim.Fault{Kind: openstacksim.FaultHang})
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if page, err := s.Next(ctx, c); provider.ClassOf(err) != provider.Transient || page.Next != "" {
		t.Errorf("%+v, %v", page, err)
	}
	release()
	if page, err := s.Next(t.Context(), c); err != nil || len(page.Broken) > 0 {
		t.Errorf("that is no failure of the region: %+v, %v", page.Broken, err)
	}
}

// Regions whose sweeps take several pages are caught up together, also when one of them
// has lost a page's time to the other.
func TestRegionsCatchUpTogether(t *testing.T) {
	t.Parallel()
	p, s := divided(t, event.FloatingIP, nil)
	var all []string
	for _, region := range twoRegions {
		for range pageSize + 2 {
			all = append(all, p.in(t, region))
		}
	}
	heal := p.breakRegion("RegionTwo", openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: 503, Skip: 1, Times: 1, Method: "GET"})
	defer heal()
	var items []source.Item
	var c source.Cursor
	for range 6 {
		page, err := s.Next(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		items, c = append(items, page.Items...), page.Next
		if page.CaughtUp && len(page.Broken) == 0 {
			if diff := cmp.Diff(ids(items), sorted(all...)); diff != "" {
				t.Errorf("caught up (-got +want):\n%s", diff)
			}
			return
		}
	}
	t.Errorf("not caught up after six pages, with two in each region")
}

// What nobody knows the region of is gone when it is in none, and when all can be asked.
func TestGoneFromAnyRegion(t *testing.T) {
	t.Parallel()
	p, s := divided(t, event.FloatingIP, nil)
	for _, region := range twoRegions {
		id := p.in(t, region)
		ask := func() (bool, error) {
			return s.Gone(t.Context(), sourcetest.Account, "", event.Resource{Type: event.FloatingIP, ID: id})
		}
		if gone, err := ask(); gone || err != nil {
			t.Errorf("in %s: %v, %v", region, gone, err)
		}
		p.remove(t, id)
		for _, broken := range twoRegions {
			heal := p.breakRegion(broken, openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: 503})
			if gone, err := ask(); gone || provider.ClassOf(err) != provider.Transient {
				t.Errorf("deleted in %s, while %s cannot be asked: %v, %v", region, broken, gone, err)
			}
			heal()
		}
		if gone, err := ask(); !gone || err != nil {
			t.Errorf("deleted in %s: %v, %v", region, gone, err)
		}
	}
}
