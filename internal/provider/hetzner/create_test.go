package hetzner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznertest"
)

func TestCreateIsOneRequestThatCarriesEverything(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	b.create(b.request()) // reads the catalogue, makes the firewall
	b.ForgetRequests()
	req := b.request()
	req.CloudInit = provider.NewSensitive([]byte("abcd"))
	id := b.create(req)
	if diff := cmp.Diff([]string{"POST /servers"}, b.calls()); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
	s := b.Servers(hetznertest.Project)[1]
	if diff := cmp.Diff(map[string]string{
		"tollgate-managed": "yes", "tollgate-uid": "uid-2", "tollgate-installation": "acme", "tollgate-namespace": "default",
		"tollgate-proxy": "p2", "tollgate-spec-hash": "hash", "tollgate-port": "3128", "tollgate-parts": "f3128",
	}, s.Labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
	if s.UserData != "abcd" || s.Name != req.Name || s.Type != "cx23" || s.Location != "nbg1" {
		t.Errorf("server: %+v", s)
	}
	if want := provider.InstanceID(fmt.Sprintf("hetzner/%d/%s/f3128", s.ID, s.Name)); id != want {
		t.Errorf("id %s, want %s", id, want)
	}
}

// TestRefusedBeforeAnyRequest holds what the vendor would refuse or change.
func TestRefusedBeforeAnyRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	for name, tc := range map[string]struct {
		change func(*provider.CreateRequest)
		want   string
	}{
		"cloud-init one byte too long": {func(r *provider.CreateRequest) {
			r.CloudInit = provider.NewSensitive([]byte(strings.Repeat("x", hetzner.MaxUserData+1)))
		}, "cloudInit: 32769 bytes"},
		"cloud-init no text":    {func(r *provider.CreateRequest) { r.CloudInit = provider.NewSensitive([]byte{0xff, 0xfe}) }, "cloudInit: is not UTF-8"},
		"no port":               {func(r *provider.CreateRequest) { r.Port = 0 }, "port: 0"},
		"bad name":              {func(r *provider.CreateRequest) { r.Name = "A_b" }, `name: "A_b"`},
		"mark that is no label": {func(r *provider.CreateRequest) { r.Marks.Namespace = "-x" }, "marks: label value '-x'"},
		"mark too long":         {func(r *provider.CreateRequest) { r.Marks.Proxy = strings.Repeat("p", 64) }, "marks: label value"},
	} {
		req := b.request()
		tc.change(&req)
		_, err := b.p.Create(t.Context(), req)
		b.wantClass(name, err, provider.Permanent)
		if provider.ReasonOf(err) != provider.ReasonInvalidSpec || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if calls := b.calls(); len(calls) != 0 {
		t.Errorf("requests were made: %v", calls)
	}
	req := b.request()
	req.CloudInit = provider.NewSensitive([]byte(strings.Repeat("x", hetzner.MaxUserData)))
	b.create(req)
}

func TestPlacementIsCheckedAgainstTheCatalogue(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: func(o *hetzner.Options) { o.Candidates, o.Image = nil, "" }})
	good := provider.Placement{Region: "fsn1", MachineType: "cx23", Image: "debian-13"}
	for name, tc := range map[string]struct {
		change func(*provider.Placement)
		want   []string
	}{
		"zone":           {func(p *provider.Placement) { p.Zone = "dc14" }, []string{`placement.zone: "dc14"`}},
		"no image":       {func(p *provider.Placement) { p.Image = "" }, []string{"placement.image: is required"}},
		"no location":    {func(p *provider.Placement) { p.Region = "" }, []string{"placement.region: is required", "fsn1, nbg1"}},
		"wrong location": {func(p *provider.Placement) { p.Region = "fsn" }, []string{`placement.region: "fsn" is no location`, "fsn1, nbg1"}},
		"no type":        {func(p *provider.Placement) { p.MachineType = "" }, []string{"placement.machineType: is required", "cx23"}},
		"wrong type":     {func(p *provider.Placement) { p.MachineType = "cx1" }, []string{`placement.machineType: "cx1" is no server type`, "cx23"}},
		"not sold there": {func(p *provider.Placement) { p.Region = "ash" }, []string{`"cx23" is not sold in ash`, "cpx32"}},
		"no longer sold": {func(p *provider.Placement) { p.MachineType = "cx22" }, []string{`"cx22" cannot be ordered in fsn1 since 2026-01-01`}},
		"wrong image":    {func(p *provider.Placement) { p.Image = "plan9" }, []string{`placement.image: "plan9" is no image for the architecture x86`}},
		"wrong image id": {func(p *provider.Placement) { p.Image = "1" }, []string{`placement.image: "1" is no image`}},
		"wrong arch":     {func(p *provider.Placement) { p.Image, p.MachineType = "114690387", "cax11" }, []string{`placement.image: "114690387" is for the architecture x86, and cax11 has arm`}},
	} {
		req := b.request()
		req.Placement = good
		tc.change(&req.Placement)
		_, err := b.p.Create(t.Context(), req)
		b.wantClass(name, err, provider.Permanent)
		for _, w := range tc.want {
			if provider.ReasonOf(err) != provider.ReasonInvalidSpec || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q", name, err, w)
			}
		}
	}
	if w := b.writes(); len(w) != 0 {
		t.Errorf("refused placements wrote: %v", w)
	}
	for name, p := range map[string]provider.Placement{
		"by name": good, "arm": {Region: "fsn1", MachineType: "cax11", Image: "debian-13"},
		"image id": {Region: "fsn1", MachineType: "cx23", Image: "114690387"}, "deprecated image": {Region: "fsn1", MachineType: "cx23", Image: "ubuntu-20.04"},
	} {
		req := b.request()
		req.Placement = p
		in := b.running(req)
		if in.Placement.Region != p.Region || in.Placement.MachineType != p.MachineType {
			t.Errorf("%s: runs at %+v", name, in.Placement)
		}
	}
}

func TestCatalogueIsReadOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{sim: func(o *hetznersim.Options) { o.MaxPerPage = 0 }})
	for range 5 {
		b.create(b.request())
	}
	for call, want := range map[string]int{"GET /server_types": 1, "GET /locations": 1, "GET /images": 1, "GET /firewalls": 1, "POST /firewalls": 1,
		"GET /primary_ips/{id}": 1, "POST /servers": 5} {
		if got := b.Count(call); got != want {
			t.Errorf("%s: %d times, want %d", call, got, want)
		}
	}
}

// TestCandidates holds what happens when a place is sold out: the next is tried,
// once each, and it is remembered.
func TestCandidates(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: func(o *hetzner.Options) {
		o.Candidates = []hetzner.Candidate{{Location: "nbg1", ServerType: "cx23"}, {Location: "fsn1", ServerType: "cx23"}, {Location: "hel1", ServerType: "cax11"}}
	}})
	b.Sim.SellOut("nbg1", "cx23", true) // although the catalogue says otherwise
	b.Sim.SellOut("fsn1", "cx23", true)
	in := b.running(b.request())
	if in.Placement.Region != "hel1" || in.Placement.MachineType != "cax11" {
		t.Errorf("made at %+v", in.Placement)
	}
	if n := b.Count("POST /servers"); n != 3 {
		t.Errorf("%d orders, want 3", n)
	}
	b.ForgetRequests()
	if in := b.running(b.request()); in.Placement.Region != "hel1" || b.Count("POST /servers") != 1 {
		t.Errorf("what was sold out is not remembered: %d orders, made at %+v", b.Count("POST /servers"), in.Placement)
	}
	st := b.p.Check(t.Context())[0]
	if got := st.Details["sold_out"]; got != "fsn1/cx23 nbg1/cx23" {
		t.Errorf("shown as sold out: %q", got)
	}
	b.Sim.SellOut("hel1", "cax11", true)
	b.ForgetRequests()
	_, err := b.p.Create(t.Context(), b.request())
	b.wantClass("sold out everywhere", err, provider.CapacityUnavailable)
	for _, place := range []string{"nbg1/cx23", "fsn1/cx23", "hel1/cax11"} {
		if err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("%v does not name %s", err, place)
		}
	}
	if n := b.Count("POST /servers"); n != 3 {
		t.Errorf("%d orders, want each place once", n)
	}
	// A field of the spec holds for all candidates: here the location, so that
	// what is left to choose is the type.
	req := b.request()
	req.Placement.Region = "fsn1"
	if in := b.running(req); in.Placement.Region != "fsn1" || in.Placement.MachineType != "cax11" {
		t.Errorf("made at %+v", in.Placement)
	}
}

func TestCatalogueAdviceOnlyOrders(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	b.Sim.SellOut("nbg1", "cx23", false) // the catalogue says so
	if in := b.running(b.request()); in.Placement.Region != "fsn1" || b.Count("POST /servers") != 1 {
		t.Errorf("made at %+v with %d orders", in.Placement, b.Count("POST /servers"))
	}
	// The only place there is, is tried although the catalogue calls it sold out.
	req := b.request()
	req.Placement = provider.Placement{Region: "nbg1"}
	b.SellIn("nbg1", "cx23")
	b.create(req)
}

func TestQuotaIsNotCapacity(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	b.SetLimit(hetznertest.Project, "servers", 1)
	b.create(b.request())
	b.ForgetRequests()
	_, err := b.p.Create(t.Context(), b.request())
	b.wantClass("over the limit", err, provider.QuotaExceeded)
	if n := b.Count("POST /servers"); n != 1 || !strings.Contains(err.Error(), "servers_limit exceeded") {
		t.Errorf("%d orders, %v", n, err)
	}
}

// TestForeignNameIsAskedForOnce: repeated creates of a name that somebody else
// has look like abuse to the vendor.
func TestForeignNameIsAskedForOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	b.create(b.request())
	req := b.request()
	b.PlaceServer(hetznertest.Project, req.Name, map[string]string{"owner": "somebody"})
	b.ForgetRequests()
	_, err := b.p.Create(t.Context(), req)
	b.wantClass("a taken name", err, provider.Conflict)
	if diff := cmp.Diff([]string{"POST /servers", "GET /servers"}, b.calls()); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestTwoInstallationsInOneProject(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	other := b.open("other", nil)
	mine, theirs := b.request(), b.request()
	theirs.Marks.Installation = "other"
	id := b.create(mine)
	otherID, err := other.Create(t.Context(), theirs)
	if err != nil {
		t.Fatal(err)
	}
	same := mine
	same.Marks.Installation = "other"
	_, err = other.Create(t.Context(), same)
	b.wantClass("the same name from another installation", err, provider.Conflict)
	_, err = other.Find(t.Context(), mine.Name, same.Marks)
	b.wantClass("find of the other's", err, provider.Conflict)
	for p, want := range map[*hetzner.Provider]provider.InstanceID{b.p: id, other: otherID} {
		installation := map[*hetzner.Provider]string{b.p: "acme", other: "other"}[p]
		all, err := p.List(t.Context(), provider.Selector{Installation: installation})
		if err != nil || len(all) != 1 || all[0].ID != want {
			t.Errorf("%s lists %v, %v", installation, all, err)
		}
	}
	if n := b.kinds()["firewall"]; n != 2 {
		t.Errorf("%d firewalls, want one for each", n)
	}
	if err := b.p.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if in, err := other.Get(t.Context(), otherID); err != nil || in.Marks.Installation != "other" {
		t.Errorf("after the neighbour was deleted: %+v, %v", in, err)
	}
}

// TestLostAnswerAtEveryMoment cuts a create off after every 100 ms of the
// simulator's day, scaled down, and with the answer lost: there is always exactly
// one server, and it is adopted.
func TestLostAnswerAtEveryMoment(t *testing.T) {
	t.Parallel()
	const scale = 20 // 100 ms become 5 ms
	for _, own := range []bool{false, true} {
		for at := time.Duration(0); at <= 2*time.Second; at += 100 * time.Millisecond {
			t.Run(fmt.Sprintf("own %v after %v", own, at), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, setup{config: func(o *hetzner.Options) {
					if own {
						o.IPv4, o.Volume.SizeGB = "own", 10
					}
				}})
				// The vendor answers each write after a second, and the answer to the
				// create never.
				b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultLoseAnswer, Method: "POST", Path: "/servers"})
				b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultDelayAnswer, Method: "POST", Times: -1, Delay: time.Second / scale})
				req := b.request()
				ctx, cancel := context.WithTimeout(t.Context(), at/scale)
				_, err := b.p.Create(ctx, req)
				cancel()
				b.wantClass("the create that was cut off", err, provider.Transient)
				b.ClearFaults()
				fresh := b.open("acme", func(o *hetzner.Options) { // another worker
					if own {
						o.IPv4, o.Volume.SizeGB = "own", 10
					}
				})
				var id provider.InstanceID
				b.until("the retry succeeds", func() bool {
					id, err = fresh.Create(t.Context(), req)
					if err != nil && provider.ClassOf(err) != provider.Transient {
						t.Fatal(err)
					}
					return err == nil
				})
				if n := b.kinds()["server"]; n != 1 {
					t.Errorf("%d servers", n)
				}
				if err := fresh.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if left := b.kinds(); len(left) != 0 {
					t.Errorf("left over: %v", left)
				}
			})
		}
	}
}

func TestFailedOrdersLeaveNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: func(o *hetzner.Options) { o.IPv4, o.IPv6, o.Volume.SizeGB = "own", "own", 10 }})
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "placement_error", Method: "POST", Path: "/servers", Times: -1})
	for range 25 {
		_, err := b.p.Create(t.Context(), b.request())
		b.wantClass("no host", err, provider.CapacityUnavailable)
	}
	if left := b.kinds(); len(left) != 0 {
		t.Errorf("25 creates that failed left %v", left)
	}
}

func TestSharedThingVanishes(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	b.PlaceServer(hetznertest.Project, "bystander", nil)
	id := b.create(b.request())
	b.running(b.request())
	// The firewall goes with the last instance, whatever the driver remembers.
	other := b.open("acme", nil)
	for _, in := range []provider.InstanceID{id, b.list()[1].ID} {
		if err := other.Delete(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.kinds()["firewall"]; n != 0 {
		t.Fatalf("%d firewalls are left", n)
	}
	b.create(b.request())
	if n := b.kinds()["firewall"]; n != 1 {
		t.Errorf("%d firewalls, want a new one", n)
	}
}

func (b *bench) list() []provider.Instance {
	b.Helper()
	all, err := b.p.List(b.Context(), provider.Selector{Installation: "acme"})
	if err != nil {
		b.Fatal(err)
	}
	return all
}

func TestContextThatHasEndedMakesNoRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.p.Create(ctx, b.request())
	if !errors.Is(err, provider.Transient) || len(b.calls()) != 0 {
		t.Errorf("%v, calls %v", err, b.calls())
	}
}
