package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local/handoff"
)

// Create makes the instance and starts its process. It returns before the
// process listens.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id, err := p.create(ctx, req)
	if err != nil {
		id = ""
	}
	return id, p.outcome(ctx, provider.OpCreate, req.Name, err, "cloud_init_bytes", req.CloudInit.Len(), "port", req.Port)
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	if err := validate(req); err != nil {
		return "", invalid{err}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	binary, err := p.findBinary()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{p.opt.dir, p.instancesDir(), p.locksDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	p.rootSeen.Store(true)
	p.step("layout made")
	lock, err := p.lockName(ctx, req.Name)
	if err != nil {
		return "", err
	}
	defer lock.release()
	p.step("name locked")

	i := p.instance(req.Name)
	existing, m, err := i.observe()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return i.id(), p.createNew(ctx, i, req, binary)
	case err != nil:
		return "", err
	}
	if err := provider.VerifyAdoption(p.name, req, existing); err != nil {
		return "", err
	}
	switch {
	case existing.State == provider.StateTerminated:
		// A delete was cut off, and this name is wanted again.
		if err := p.remove(ctx, i); err != nil {
			return "", err
		}
		return i.id(), p.createNew(ctx, i, req, binary)
	case existing.State == provider.StateProvisioning && m.Process == nil:
		return i.id(), p.startAgain(ctx, i, m, binary)
	}
	return i.id(), nil
}

func validate(req provider.CreateRequest) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := provider.ValidateName("name", req.Name); err != nil {
		errs = append(errs, err)
	}
	if req.Marks.UID == "" {
		bad("marks.uid: is required: an instance that nobody owns could never be collected")
	}
	if req.Marks.Installation == "" {
		bad("marks.installation: is required: an instance that nobody owns could never be collected")
	}
	if req.Port < 1 || req.Port > 65535 {
		bad("port: %d: want 1 to 65535", req.Port)
	}
	if r := req.Placement.Region; r != "" && r != Region {
		bad("placement.region: %q: want %q or none", r, Region)
	}
	for _, f := range []struct{ field, value string }{
		{"zone", req.Placement.Zone}, {"machineType", req.Placement.MachineType}, {"image", req.Placement.Image},
	} {
		if f.value != "" {
			bad("placement.%s: %q: want none: a process of this machine has no choice of it", f.field, f.value)
		}
	}
	if a := req.Auth; a != nil {
		if a.Username == "" || strings.ContainsRune(a.Username, ':') {
			bad("auth.username: %q: want at least one character and no ':'", a.Username)
		}
		if a.Password.Len() == 0 {
			bad("auth.password: is empty: want at least one byte")
		}
	}
	return errors.Join(errs...)
}

// createNew makes an instance that does not exist. Callers hold the name's lock.
func (p *Provider) createNew(ctx context.Context, i instance, req provider.CreateRequest, binary string) (err error) {
	// What a cut-off call may have left.
	if err := p.remove(ctx, i); err != nil {
		return err
	}
	p.step("rests removed")
	pl, m, err := p.commit(ctx, i, req)
	if err != nil {
		return errors.Join(err, os.RemoveAll(i.dir))
	}
	defer pl.close()
	p.step("committed")
	// From here on the instance exists, and a repeat finds it. The rest takes
	// milliseconds and is not cut short.
	lock, err := openProcessLock(i.lockPath())
	if err == nil && lock == nil {
		err = fmt.Errorf("%s is locked by another program", i.lockPath())
	}
	if err == nil {
		err = p.start(ctx, i, m, pl, lock, binary)
	}
	if err != nil {
		return errors.Join(err, p.remove(context.WithoutCancel(ctx), i))
	}
	return nil
}

// commit chooses the address and writes the instance down, meta.json last. The
// lock keeps two creates from the same address and from the last free place.
func (p *Provider) commit(ctx context.Context, i instance, req provider.CreateRequest) (_ *place, _ meta, err error) {
	ctx, end := startSpan(ctx, "local.allocate")
	defer func() { end(err) }()
	lock, err := p.lockAddresses(ctx)
	if err != nil {
		return nil, meta{}, err
	}
	defer lock.release()
	p.step("addresses locked")
	used, err := p.countAndUsed(req.Marks.Installation, "")
	if err != nil {
		return nil, meta{}, err
	}
	pl, err := p.findPlace(ctx, i.name, req.Port, netip.Addr{}, used)
	if err != nil {
		return nil, meta{}, portError(req.Port, err)
	}
	p.step("address taken")
	m := meta{
		Version: metaVersion, Name: i.name, Labels: req.Marks.Labels(), CreatedAt: time.Now().UTC(),
		Placement: req.Placement, Address: pl.addr, Port: req.Port,
	}
	if err := p.writeInstance(i, m, req); err != nil {
		pl.close()
		return nil, meta{}, err
	}
	return pl, m, nil
}

func (p *Provider) writeInstance(i instance, m meta, req provider.CreateRequest) error {
	if err := os.Mkdir(i.dir, 0o700); err != nil {
		return err
	}
	p.step("directory made")
	if err := handoff.WriteFile(i.dir, handoff.LockFile, nil, false); err != nil {
		return err
	}
	if err := handoff.WriteFile(i.dir, userDataFile, req.CloudInit.Reveal(), false); err != nil {
		return err
	}
	p.step("user data written")
	c := handoff.Config{AllowPorts: p.opt.allowPorts, IdleTimeout: p.opt.idleTimeout, Drain: p.opt.drain}
	if req.Auth != nil {
		c.Credentials = handoff.NewCredentials(req.Auth.Username, req.Auth.Password.Reveal())
	}
	if err := handoff.WriteJSON(i.dir, handoff.ConfigFile, c, false); err != nil {
		return err
	}
	p.step("config written")
	return i.writeMeta(m)
}

// startAgain completes a create that ended before it had written the process
// down: it looks for the process, and starts it if there is none. Callers hold
// the name's lock.
func (p *Provider) startAgain(ctx context.Context, i instance, m meta, binary string) error {
	lock, err := p.lockOrHolder(ctx, i, &m)
	if lock == nil || err != nil {
		return err
	}
	if i.ready() != nil {
		return lock.Close() // it has run and ended since it was looked at
	}
	pl, err := p.findAgain(ctx, i, &m)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	defer pl.close()
	return p.start(ctx, i, m, pl, lock, binary)
}

// lockOrHolder returns the process lock, or nil when the process is there, which
// it then writes down. The lock without a process is possible for a moment: any
// process that is being forked has a copy of every descriptor until it is
// another program.
func (p *Provider) lockOrHolder(ctx context.Context, i instance, m *meta) (*os.File, error) {
	var wait backoff
	for {
		lock, err := openProcessLock(i.lockPath())
		if lock != nil || err != nil {
			return lock, err
		}
		if proc := i.holder(); proc != nil {
			self, err := handoff.Identify(proc.Pid)
			_ = proc.Release()
			if err == nil {
				m.Process = &self
				return nil, i.writeMeta(*m)
			}
		}
		if err := wait.sleep(ctx); err != nil {
			return nil, err
		}
	}
}

// findAgain takes the address that was written down, or else another one, which
// nobody can have used yet.
func (p *Provider) findAgain(ctx context.Context, i instance, m *meta) (_ *place, err error) {
	ctx, end := startSpan(ctx, "local.allocate")
	defer func() { end(err) }()
	lock, err := p.lockAddresses(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.release()
	used, err := p.countAndUsed("", i.name)
	if err != nil {
		return nil, err
	}
	pl, err := p.findPlace(ctx, i.name, m.Port, m.Address, used)
	if err != nil {
		return nil, portError(m.Port, err)
	}
	p.step("address taken again")
	if pl.addr != m.Address {
		m.Address = pl.addr
		if err := i.writeMeta(*m); err != nil {
			pl.close()
			return nil, err
		}
	}
	return pl, nil
}

// start forks the process with the lock, which it closes, and writes its
// identity down. Callers hold the name's lock.
func (p *Provider) start(ctx context.Context, i instance, m meta, pl *place, lock *os.File, binary string) (err error) {
	_, end := startSpan(ctx, "local.spawn")
	defer func() { end(err) }()
	p.step("process lock taken")
	cmd, err := startProcess(binary, i, lock, pl.listener, pl.reservation)
	p.step("process started")
	if cerr := lock.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", binary, err)
	}
	// Read before it is waited for, so that the pid cannot be another's.
	self, err := handoff.Identify(cmd.Process.Pid)
	go func() { _ = cmd.Wait() }() // no zombie while this worker lives
	if err != nil {
		return err
	}
	m.Process = &self
	if err := i.writeMeta(m); err != nil {
		return err
	}
	p.step("process recorded")
	p.log.DebugContext(ctx, "proxy process started", "instance", i.name, "pid", self.PID, "address", m.Address.String())
	return nil
}

// countAndUsed reads every instance of the directory: it refuses when the
// installation has all it may have, and returns the addresses that are written
// down. An instance named except is left out; an empty installation is not
// counted. What cannot be read counts for everybody; its address is reserved
// all the same while its process lives.
func (p *Provider) countAndUsed(installation, except string) (map[netip.Addr]bool, error) {
	used := map[netip.Addr]bool{}
	count := 0
	err := p.each(func(i instance) error {
		m, err := i.meta()
		switch {
		case errors.Is(err, fs.ErrNotExist), i.name == except:
			return nil
		case err != nil:
			count++
			return nil
		}
		used[m.Address] = true
		if marks, ok := provider.MarksFromLabels(m.Labels); ok && marks.Installation == installation {
			count++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if installation != "" && p.opt.maxInstances > 0 && count >= p.opt.maxInstances {
		return nil, fmt.Errorf("%w: maxInstances: installation %q has %d instances, and may have %d",
			errQuota, installation, count, p.opt.maxInstances)
	}
	return used, nil
}

// portError tells a port that needs privileges from other refusals.
func portError(port int, err error) error {
	if errors.Is(err, fs.ErrPermission) && port < 1024 {
		return invalid{fmt.Errorf("port: %d: this user may not listen on it: want 1024 to 65535: %w", port, err)}
	}
	return err
}
