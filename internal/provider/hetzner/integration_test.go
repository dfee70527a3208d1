//go:build integration

package hetzner_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
)

// Environment of the test against a real project. It makes one small server for
// about two minutes, which costs less than a cent.
const (
	envLocation = "TOLLGATE_HETZNER_LOCATION" // default nbg1, then fsn1, then hel1
	envType     = "TOLLGATE_HETZNER_TYPE"     // default cx23
	envImage    = "TOLLGATE_HETZNER_IMAGE"    // default debian-13
	envParts    = "TOLLGATE_HETZNER_OWN"      // when set: an address and a volume of its own as well
)

// integrationInstallation is that of all runs of this test, so that a run finds
// what an earlier one that was killed has left.
const integrationInstallation = "tollgate-integration"

// TestRealProject runs an instance's whole life at Hetzner Cloud, with the token
// in HCLOUD_TOKEN.
func TestRealProject(t *testing.T) {
	if os.Getenv("HCLOUD_TOKEN") == "" {
		t.Skip("HCLOUD_TOKEN is not set")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	p := realProvider(t)
	for _, st := range p.Check(ctx) {
		if !st.Ready {
			t.Fatalf("check of %s: %s: %s", st.Target, st.Reason, st.Message)
		}
	}
	ours := provider.Selector{Installation: integrationInstallation}
	if old, err := provider.ReapOlderThan(ctx, p, ours, time.Hour, time.Now(), false); err != nil || len(old) > 0 {
		t.Logf("left by an earlier run and deleted: %d, %v", len(old), err)
	}
	uid := fmt.Sprintf("it-%d", time.Now().UnixNano())
	req := provider.CreateRequest{Name: provider.InstanceName(uid, 0), Port: 3128,
		Marks:     provider.Marks{UID: uid, Installation: integrationInstallation, Namespace: "integration", Proxy: "one", SpecHash: "hash"},
		CloudInit: provider.NewSensitive([]byte("#cloud-config\nruncmd: [[\"true\"]]\n")),
	}
	if price, known, err := p.PriceEURPerHour(ctx, req.Placement); err != nil || !known || price <= 0 {
		t.Errorf("price %v, known %v, %v", price, known, err)
	}
	id, err := p.Create(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, p, id) })
	if again, err := p.Create(ctx, req); err != nil || again != id {
		t.Errorf("the same create again: %q, %v; want %q", again, err, id)
	}
	changed := req
	changed.Marks.SpecHash = "another"
	if _, err := p.Create(ctx, changed); !errors.Is(err, provider.Conflict) {
		t.Errorf("the name for another spec: %v, want a conflict", err)
	}
	in := waitReal(ctx, t, p, id)
	if in.Marks != req.Marks || !in.IP.IsValid() || time.Since(in.CreatedAt) > time.Hour {
		t.Errorf("running as %+v", in)
	}
	if found, err := p.Find(ctx, req.Name, req.Marks); err != nil || found.ID != id {
		t.Errorf("find: %+v, %v", found, err)
	}
	if all, err := p.List(ctx, ours); err != nil || len(all) != 1 || all[0].ID != id {
		t.Errorf("list: %+v, %v", all, err)
	}
	if list, err := p.ListCompanions(ctx, provider.Selector{UID: uid}); err != nil {
		t.Error(err)
	} else {
		for _, c := range list {
			if c.AttachedTo != id {
				t.Errorf("companion %+v, want it attached to %s", c, id)
			}
		}
	}
	for range 2 {
		if err := deleteReal(ctx, p, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Get(ctx, id); !errors.Is(err, provider.NotFound) {
		t.Errorf("get after delete: %v", err)
	}
	if list, err := p.ListCompanions(ctx, ours); err != nil || len(list) > 0 {
		t.Errorf("left over: %+v, %v", list, err)
	}
	if r, ok := p.RateLimit(); ok {
		t.Logf("requests left: %d of %d", r.Remaining, r.Limit)
	}
}

func realProvider(t *testing.T) *hetzner.Provider {
	t.Helper()
	p, err := hetzner.New(provider.Config{Name: "integration", Installation: integrationInstallation,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Decode: func(into any) error {
			o := into.(*hetzner.Options)
			o.Image = cmp.Or(os.Getenv(envImage), "debian-13")
			typ := cmp.Or(os.Getenv(envType), "cx23")
			places := []string{"nbg1", "fsn1", "hel1"}
			if l := os.Getenv(envLocation); l != "" {
				places = []string{l}
			}
			for _, l := range places {
				o.Candidates = append(o.Candidates, hetzner.Candidate{Location: l, ServerType: typ})
			}
			o.Firewall.AllowFrom = []string{"192.0.2.0/24"}
			if os.Getenv(envParts) != "" {
				o.IPv4, o.Volume = "own", hetzner.Volume{SizeGB: 10, Format: "ext4"}
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func waitReal(ctx context.Context, t *testing.T, p *hetzner.Provider, id provider.InstanceID) provider.Instance {
	t.Helper()
	poll := time.NewTicker(hetzner.Type().Profile.ReadyPoll)
	defer poll.Stop()
	for {
		in, err := p.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s (%s) %v", in.State, in.RawState, in.IP)
		switch in.State {
		case provider.StateRunning:
			return in
		case provider.StateStopped, provider.StateTerminated:
			t.Fatalf("%s on the way to running", in.State)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
}

// deleteReal deletes as a caller does: again while that is Transient.
func deleteReal(ctx context.Context, p *hetzner.Provider, id provider.InstanceID) error {
	poll := time.NewTicker(5 * time.Second)
	defer poll.Stop()
	for {
		err := p.Delete(ctx, id)
		if provider.ClassOf(err) != provider.Transient {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return err
		}
	}
}

func removeAll(t *testing.T, p *hetzner.Provider, id provider.InstanceID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	if err := deleteReal(ctx, p, id); err != nil {
		t.Errorf("clean-up: %v", err)
	}
}
