package openstack_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// mostRequests is how many requests a whole create in a new process makes.
const mostRequests = 17

// A create, a Get and a delete that break off at any one of their requests, in
// any way, leave exactly one of everything after a retry, and nothing in the end.
func TestEveryRequestMayFail(t *testing.T) {
	t.Parallel()
	for _, kind := range []openstacksim.Fault{
		{Kind: openstacksim.FaultLoseAnswer},
		{Kind: openstacksim.FaultTruncate},
		{Kind: openstacksim.FaultAnswer, Status: 500, Message: "Unexpected API Error."},
		{Kind: openstacksim.FaultAnswer, Status: 503, Message: "Try again."},
		{Kind: openstacksim.FaultAnswer, Status: 429, Message: "Slow down.", RetryAfter: time.Second},
		{Kind: openstacksim.FaultAnswer, Status: 401, Message: "The request you have made requires authentication."},
	} {
		t.Run(string(kind.Kind)+" "+http.StatusText(kind.Status), func(t *testing.T) {
			t.Parallel()
			for n := range mostRequests {
				b := openstacktest.NewBackend(t, quick())
				req := request("proxy-a")
				fault := kind
				fault.Skip, fault.Times = n, 1
				remove := b.Add(fault)
				// Each attempt is another process, so that nothing is remembered.
				var id provider.InstanceID
				retry(t, func() (err error) { id, err = open(t, b, everything).Create(t.Context(), req); return repaired(err) })
				remove()
				if got := count(b); got != complete {
					t.Errorf("request %d fails: there is %s", n, got)
				}
				waitRunning(t, open(t, b, everything), id)
				remove = b.Add(fault)
				retry(t, func() error { return repaired(open(t, b, everything).Delete(t.Context(), id)) })
				remove()
				if got := count(b); got != "" {
					t.Errorf("request %d of the delete fails: %s is left", n, got)
				}
			}
		})
	}
}

// repaired is the error of a login that was refused once, as after somebody has
// seen to it.
func repaired(err error) error {
	if provider.ReasonOf(err) == provider.ReasonUnauthorized {
		return provider.Wrap(provider.Transient, provider.OpCreate, "cloud", "", err)
	}
	return err
}

// The same within one process, which goes on where it was.
func TestCutOffAnywhere(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	p := open(t, b, everything)
	for n := range 14 {
		req := request("proxy-" + string(rune('a'+n)))
		ctx, cancel := context.WithCancel(t.Context())
		hang := b.Add(openstacksim.Fault{Kind: openstacksim.FaultHang, Skip: n, Times: 1})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = p.Create(ctx, req)
		}()
		select { // a create of n requests or fewer ends by itself
		case <-done:
		case <-time.After(60 * time.Millisecond):
		}
		cancel()
		<-done
		hang()
		var id provider.InstanceID
		retry(t, func() (err error) { id, err = p.Create(t.Context(), req); return err })
		if got := count(b); got != complete {
			t.Errorf("cut off at request %d: there is %s", n, got)
		}
		retry(t, func() error { return p.Delete(t.Context(), id) })
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
}

// Fifty creates that the cloud refuses, in each way in which it does, leave
// nothing, and each proxy of a server that ended in ERROR is deleted with all of it.
func TestFailedCreatesLeaveNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(b *openstacktest.Backend)
		class   provider.Class
	}{
		"no host, in the answer": {func(b *openstacktest.Backend) { b.NoHost() }, provider.CapacityUnavailable},
		"quota of servers":       {func(b *openstacktest.Backend) { b.SetQuotas(openstacksim.Quotas{Instances: 1}) }, provider.QuotaExceeded},
		"quota of ports":         {func(b *openstacktest.Backend) { b.SetQuotas(openstacksim.Quotas{Ports: 1}) }, provider.QuotaExceeded},
		"quota of floating IPs":  {func(b *openstacktest.Backend) { b.SetQuotas(openstacksim.Quotas{FloatingIPs: 1}) }, provider.QuotaExceeded},
		"quota of volumes":       {func(b *openstacktest.Backend) { b.SetQuotas(openstacksim.Quotas{VolumeGB: 1}) }, provider.QuotaExceeded},
		"forbidden": {func(b *openstacktest.Backend) {
			b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Method: "POST", Path: "/servers", Status: 403, Message: "Policy doesn't allow it."})
		}, provider.Permanent},
		"no valid host, later": {func(b *openstacktest.Backend) { b.FailBuilds("No valid host was found. ") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openstacktest.NewBackend(t, quick())
			p := open(t, b, everything)
			create(t, p, request("first"))
			before := count(b)
			tc.prepare(b)
			for i := range 50 {
				req := request("proxy-" + string(rune('a'+i%25)))
				id, err := p.Create(t.Context(), req)
				if tc.class != "" {
					if provider.ClassOf(err) != tc.class {
						t.Fatalf("create %d: %v", i, err)
					}
					continue
				}
				in, gerr := p.Get(t.Context(), id)
				if err != nil || gerr != nil || in.State != provider.StateStopped || in.RawState != "ERROR: No valid host was found." {
					t.Fatalf("create %d: %+v, %v, %v", i, in, err, gerr)
				}
				if err := p.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if after := count(b); after != before {
				t.Errorf("there is %s, and was %s", after, before)
			}
		})
	}
}

// Attempts in two processes at once, while listings do not show what was just
// made, end with one server.
func TestRacingCreates(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]time.Duration{"quick": 0, "slow": 30 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 10 {
				b := openstacktest.NewBackend(t, openstacksim.Options{BuildTime: build})
				ps := []*openstack.Provider{open(t, b, everything), open(t, b, everything)}
				req := request("proxy-a")
				ids := make([]provider.InstanceID, len(ps))
				var wg sync.WaitGroup
				for i, p := range ps {
					wg.Go(func() { ids[i], _ = p.Create(t.Context(), req) })
				}
				wg.Wait()
				var id provider.InstanceID
				retry(t, func() (err error) { id, err = ps[0].Create(t.Context(), req); return err })
				for i, other := range ids {
					if other != "" && other != id {
						t.Errorf("attempt %d gave %s, and a later one %s", i, other, id)
					}
				}
				servers := 0
				for _, o := range b.Objects() {
					if o.Kind == "server" {
						servers++
					}
				}
				if servers != 1 {
					t.Errorf("there are %d servers", servers)
				}
				if !comesUp(t, ps[0], id) {
					// Nova gave the port to the one that had to go. The one that stays says
					// that it is stopped, and whoever wants it makes another.
					retry(t, func() error { return ps[0].Delete(t.Context(), id) })
					next := request("proxy-b")
					retry(t, func() (err error) { id, err = ps[0].Create(t.Context(), next); return err })
					waitRunning(t, ps[0], id)
				}
				retry(t, func() error { return ps[0].Delete(t.Context(), id) })
				if got := count(b); got != "" {
					t.Errorf("%s is left", got)
				}
			}
		})
	}
}

// A lost answer whose server is not listed yet: the port knows the server.
func TestLostAnswerAndNoListing(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	b.LagNamed(time.Hour)
	b.LoseCreateReply(t)
	req := request("proxy-a")
	if _, err := open(t, b, everything).Create(t.Context(), req); provider.ClassOf(err) != provider.Transient {
		t.Fatal(err)
	}
	id := create(t, open(t, b, everything), req)
	if in, err := open(t, b, everything).Find(t.Context(), req.Name, req.Marks); err != nil || in.ID != id {
		t.Errorf("found %+v, %v; want %s", in, err, id)
	}
	if got := count(b); got != complete {
		t.Errorf("there is %s", got)
	}
}

// Two servers of one name, however they came about: the oldest stays, of equally
// old ones the one with the smallest id, and what is not ours is left alone.
func TestTwins(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	req := request("proxy-a")
	place := func(marks provider.Marks) string {
		return b.PlaceServer(openstacktest.Region, req.Name, marks.Labels(), openstacktest.Tags(marks))
	}
	young, old := place(req.Marks), place(req.Marks)
	other := req.Marks
	other.UID = "somebody"
	foreign := place(other)
	b.Age(old, time.Hour)
	id := create(t, open(t, b, nil), req)
	if want := "/" + old + "/"; !strings.Contains(string(id), want) {
		t.Errorf("%s stays, want %s", id, old)
	}
	left := map[string]bool{}
	for _, o := range b.Objects() {
		left[o.ID] = true
	}
	if left[young] || !left[old] || !left[foreign] {
		t.Errorf("left %v; want %s and %s without %s", left, old, foreign, young)
	}
	a, z := place(request("proxy-b").Marks), place(request("proxy-b").Marks)
	for _, id := range []string{a, z} {
		b.Rename(id, "proxy-b")
		b.Age(id, time.Hour)
	}
	if got := string(create(t, open(t, b, nil), request("proxy-b"))); !strings.Contains(got, min(a, z)) {
		t.Errorf("%s stays, of %s and %s", got, a, z)
	}
}

// What the cloud would refuse or spoil is refused before any request.
func TestCheckedBeforeAnyRequest(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	p := open(t, b, nil)
	before := b.Requests()
	for name, change := range map[string]func(*provider.CreateRequest){
		"cloud-init": func(r *provider.CreateRequest) {
			r.CloudInit = provider.NewSensitive(bytes.Repeat([]byte("x"), openstack.MaxUserData+1))
		},
		"port":  func(r *provider.CreateRequest) { r.Port = 0 },
		"name":  func(r *provider.CreateRequest) { r.Name = "Not A Name" },
		"marks": func(r *provider.CreateRequest) { r.Marks.Proxy = strings.Repeat("p", 250) },
	} {
		req := request("proxy-a")
		change(&req)
		_, err := p.Create(t.Context(), req)
		if provider.ClassOf(err) != provider.Permanent || provider.ReasonOf(err) != provider.ReasonInvalidSpec {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.Requests() - before; n != 0 {
		t.Errorf("%d requests were made", n)
	}
	if openstack.MaxUserData != 49_149 {
		t.Errorf("the most cloud-init is %d bytes", openstack.MaxUserData)
	}
	req := request("proxy-a")
	req.CloudInit = provider.NewSensitive(bytes.Repeat([]byte("x"), openstack.MaxUserData))
	create(t, p, req)
	if got := b.UserData(t, req.Name); len(got) != openstack.MaxUserData {
		t.Errorf("the guest got %d bytes", len(got))
	}
}

// Values that do not exist are named, with the field that they are in.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	for want, tc := range map[string]struct {
		place  provider.Placement
		config func(*openstack.Options)
	}{
		`placement.machineType: "huge": there is no such flavor: want one of m1.large, m1.small, m1.tiny`: {place: provider.Placement{MachineType: "huge"}},
		`placement.image: "plan9": there is no such active image`:                                         {place: provider.Placement{Image: "plan9"}},
		`placement.zone: "mars": there is no such availability zone: want one of nova`:                    {place: provider.Placement{Zone: "mars"}},
		`placement.region: "Atlantis": want one of RegionOne`:                                             {place: provider.Placement{Region: "Atlantis"}},
		`flavor: "huge"`:            {config: func(o *openstack.Options) { o.Flavor = "huge" }},
		`network: "nowhere"`:        {config: func(o *openstack.Options) { o.Network = "nowhere" }},
		`subnet: "nowhere"`:         {config: func(o *openstack.Options) { o.Subnet = "nowhere" }},
		`floatingNetwork: "private`: {config: func(o *openstack.Options) { o.FloatingNetwork = "private" }},
		`securityGroups[1]: "open"`: {config: func(o *openstack.Options) { o.SecurityGroups = []string{"default", "open"} }},
	} {
		req := request("proxy-a")
		req.Placement = tc.place
		_, err := open(t, b, tc.config).Create(t.Context(), req)
		if provider.ReasonOf(err) != provider.ReasonInvalidSpec || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
	if got := count(b); got != "" {
		t.Errorf("%s was made", got)
	}
}
