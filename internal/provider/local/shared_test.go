package local

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func TestFiftyCreatesAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	workers := []*Provider{f.open(), f.open(), f.open()}
	const n = 50
	reqs := make([]provider.CreateRequest, n)
	for i := range reqs {
		reqs[i] = request()
	}
	inParallel(n, func(i int) {
		if _, err := workers[i%3].Create(t.Context(), reqs[i]); err != nil {
			t.Error(err)
		}
	})
	addresses := map[netip.Addr]bool{}
	for _, req := range reqs {
		addresses[f.running(workers[0], instanceID(req.Name)).IP] = true
	}
	if len(addresses) != n || len(processes(t, f.dir)) != n {
		t.Errorf("%d addresses and %d processes, want %d of each", len(addresses), len(processes(t, f.dir)), n)
	}
	all, err := workers[1].List(t.Context(), provider.Selector{Installation: "ours"})
	if err != nil || len(all) != n {
		t.Errorf("%d listed, %v; want %d", len(all), err, n)
	}
	inParallel(n, func(i int) {
		if err := workers[i%3].Delete(t.Context(), instanceID(reqs[i].Name)); err != nil {
			t.Error(err)
		}
	})
	f.wantNothing()
}

func TestTwoInstallationsInOneDirectory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ours, theirs := f.open(), f.openAs("theirs")
	mine, yours := request(), request()
	yours.Marks.Installation = "theirs"
	f.running(ours, f.create(ours, mine))
	f.running(theirs, f.create(theirs, yours))

	// Theirs wants the name that ours has.
	same := mine
	same.Marks.Installation = "theirs"
	before := processes(t, f.dir)
	_, err := theirs.Create(t.Context(), same)
	wantClass(t, err, provider.Conflict)
	_, err = theirs.Find(t.Context(), mine.Name, same.Marks)
	wantClass(t, err, provider.Conflict)
	if diff := cmp.Diff(processes(t, f.dir), before); diff != "" {
		t.Errorf("processes changed (-got +want):\n%s", diff)
	}
	for inst, want := range map[string]string{"ours": mine.Name, "theirs": yours.Name} {
		all, err := ours.List(t.Context(), provider.Selector{Installation: inst})
		if err != nil || len(all) != 1 || all[0].Name != want {
			t.Errorf("list of %s: %v, %v; want %s", inst, all, err, want)
		}
	}
	if err := theirs.Delete(t.Context(), instanceID(yours.Name)); err != nil {
		t.Fatal(err)
	}
	f.wantOne("after theirs was deleted", ours, mine)
}

// A cut-off delete of somebody else's instance is theirs to finish.
func TestCreateLeavesAnotherOwnersHalfDeletedInstance(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.open()
	req := request()
	f.running(p, f.create(p, req))
	m, err := p.instance(req.Name).meta()
	if err != nil {
		t.Fatal(err)
	}
	m.DeletingSince = m.CreatedAt
	if err := p.instance(req.Name).writeMeta(m); err != nil {
		t.Fatal(err)
	}
	f.waitState(p, instanceID(req.Name), provider.StateTerminated)
	other := req
	other.Marks.UID = "somebody-else"
	_, err = p.Create(t.Context(), other)
	wantClass(t, err, provider.Conflict)
	if n := len(processes(t, f.dir)); n != 1 {
		t.Errorf("%d processes, want the one that was there", n)
	}
	f.create(p, req)
	f.wantOne("after its owner wants it again", p, req)
}

// lostReply does the work and loses the answer.
type lostReply struct{ provider.Provider }

var errLost = errors.New("the answer was lost")

func (l lostReply) Create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	if _, err := l.Provider.Create(ctx, req); err != nil {
		return "", err
	}
	return "", provider.Wrap(provider.Transient, provider.OpCreate, "here", req.Name, errLost)
}

func TestLostReply(t *testing.T) {
	t.Parallel()
	f, req := newFixture(t), request()
	p := f.open()
	for range 3 {
		_, err := lostReply{p}.Create(t.Context(), req)
		wantClass(t, err, provider.Transient)
	}
	f.create(f.open(), req)
	f.wantOne("after lost replies", p, req)
	in, err := p.Find(t.Context(), req.Name, req.Marks)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Delete(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	f.wantNothing()
}

func TestQuotaCountsInstancesOfTheInstallationUntilTheyAreGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	two := func(o *Options) { o.MaxInstances = 2 }
	p := f.open(two)
	var ids []provider.InstanceID
	results := make([]error, 6)
	reqs := make([]provider.CreateRequest, len(results))
	for i := range reqs {
		reqs[i] = request()
	}
	inParallel(len(results), func(i int) { _, results[i] = p.Create(t.Context(), reqs[i]) })
	for i, err := range results {
		if err == nil {
			ids = append(ids, instanceID(reqs[i].Name))
			continue
		}
		wantClass(t, err, provider.QuotaExceeded)
		if !strings.Contains(err.Error(), "maxInstances") {
			t.Errorf("the error does not name the setting: %v", err)
		}
	}
	if len(ids) != 2 {
		t.Fatalf("%d instances were made, want 2", len(ids))
	}
	stranger := request()
	stranger.Marks.Installation = "theirs"
	f.create(f.openAs("theirs", two), stranger)
	if err := p.Delete(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	f.create(p, request())
	_, err := p.Create(t.Context(), request())
	wantClass(t, err, provider.QuotaExceeded)
	// A repeat of what exists is no new instance.
	for i := range reqs {
		if instanceID(reqs[i].Name) == ids[1] {
			f.create(p, reqs[i])
		}
	}
}

func TestPortThatAnotherProgramHas(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	req := request()
	req.Port = l.Addr().(*net.TCPAddr).Port
	_, err = f.open().Create(t.Context(), req)
	wantClass(t, err, provider.CapacityUnavailable)
	if err == nil || !strings.Contains(err.Error(), "port") || !strings.Contains(err.Error(), strconv.Itoa(req.Port)) {
		t.Errorf("the error does not name the port: %v", err)
	}
	f.wantNothing()
	// On one address only, the next one serves.
	req2 := request()
	first := firstCandidate(t, req2.Name)
	l2, err := net.Listen("tcp4", netip.AddrPortFrom(first, testPort).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l2.Close() }()
	if in := f.running(f.open(), f.create(f.open(), req2)); in.IP == first {
		t.Errorf("the instance has %v, where the port is taken", in.IP)
	}
}

func firstCandidate(t *testing.T, name string) netip.Addr {
	t.Helper()
	for addr := range candidates(netip.MustParsePrefix(defaultNetwork), name) {
		return addr
	}
	t.Fatal("no candidate")
	return netip.Addr{}
}

func TestDirectoryThatDisappears(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.open()
	id := provider.InstanceID("local/" + request().Name)
	// Before anything was made, nothing exists.
	if all, err := p.List(t.Context(), provider.Selector{}); err != nil || len(all) != 0 {
		t.Errorf("an unused directory lists %v, %v", all, err)
	}
	_, err := p.Get(t.Context(), id)
	wantClass(t, err, provider.NotFound)
	if err := p.Delete(t.Context(), id); err != nil {
		t.Errorf("delete in an unused directory: %v", err)
	}

	req := request()
	f.running(p, f.create(p, req))
	away := f.dir + "-away"
	if err := os.Rename(f.dir, away); err != nil {
		t.Fatal(err)
	}
	defer func() {
		killAll(t, f.dir)
		_ = os.Rename(away, f.dir)
	}()
	_, gerr := p.Get(t.Context(), instanceID(req.Name))
	_, ferr := p.Find(t.Context(), req.Name, req.Marks)
	_, lerr := p.List(t.Context(), provider.Selector{})
	for what, err := range map[string]error{"get": gerr, "find": ferr, "list": lerr, "delete": p.Delete(t.Context(), instanceID(req.Name))} {
		if got := provider.ClassOf(err); got != provider.Transient || !strings.Contains(err.Error(), "disappeared") {
			t.Errorf("%s while the directory is away: class %q, %v; want Transient and why", what, got, err)
		}
	}
}

func TestInstanceThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"not JSON": "{", "of another version": `{"version": 99}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			p := f.open(func(o *Options) { o.MaxInstances = 2 })
			broken, req := request(), request()
			f.running(p, f.create(p, broken))
			path := filepath.Join(p.instance(broken.Name).dir, metaFile)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, gerr := p.Get(t.Context(), instanceID(broken.Name))
			_, ferr := p.Find(t.Context(), broken.Name, broken.Marks)
			_, cerr := p.Create(t.Context(), broken)
			_, lerr := p.List(t.Context(), provider.Selector{})
			for what, err := range map[string]error{"get": gerr, "find": ferr, "create": cerr, "list": lerr} {
				if provider.ClassOf(err) != provider.Transient || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v; want Transient, naming %s", what, err, path)
				}
			}
			if s := p.Check(t.Context())[1]; s.Ready || s.Reason != reasonDirUnusable || !strings.Contains(s.Message, path) {
				t.Errorf("check says %+v, want %s naming %s", s, reasonDirUnusable, path)
			}
			// Others can still be made, and it counts.
			f.running(p, f.create(p, req))
			_, err := p.Create(t.Context(), request())
			wantClass(t, err, provider.QuotaExceeded)
			if err := p.Delete(t.Context(), instanceID(broken.Name)); err != nil {
				t.Fatal(err)
			}
			f.wantOne("after the unreadable one was deleted", p, req)
		})
	}
}

func TestListingSweepsRestsAndLeavesWorkUnderWayAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.open()
	kept := request()
	f.running(p, f.create(p, kept))
	rest, underWay := p.instance(request().Name), p.instance(request().Name)
	for _, i := range []instance{rest, underWay} {
		if err := os.Mkdir(i.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(i.dir, userDataFile), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stale := filepath.Join(p.locksDir(), request().Name+".lock")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := p.lockName(t.Context(), underWay.name)
	if err != nil {
		t.Fatal(err)
	}
	// Each provider sweeps at its first listing.
	list := func() {
		t.Helper()
		if all, err := f.open().List(t.Context(), provider.Selector{}); err != nil || len(all) != 1 || all[0].Name != kept.Name {
			t.Errorf("listed %v, %v; want %s only", all, err, kept.Name)
		}
	}
	list()
	want := []string{"instances/" + underWay.name + "/" + userDataFile, "locks/" + underWay.name + ".lock"}
	var got []string
	for _, name := range files(t, f.dir) {
		if name != "allocate.lock" && !strings.Contains(name, kept.Name) {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("files (-got +want):\n%s", diff)
	}
	lock.release()
	list()
	f.wantOne("after the sweeps", p, kept)
	if err := p.Delete(t.Context(), instanceID(kept.Name)); err != nil {
		t.Fatal(err)
	}
	f.wantNothing()
}
