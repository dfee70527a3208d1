package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// limit is the time a command has when --timeout says nothing.
func (a *app) limit(wait bool) time.Duration {
	if wait {
		return waitTimeout
	}
	return callTimeout
}

// human is where text for people goes: standard output, unless that carries a
// document.
func (a *app) human() io.Writer {
	if a.output.value == formatJSON || a.output.value == formatYAML {
		return a.env.Stderr
	}
	return a.env.Stdout
}

func (a *app) say(format string, args ...any) { fmt.Fprintf(a.human(), format+"\n", args...) }

// settled ends a command that changed a proxy: it waits if asked to, and prints
// the document where one is asked for.
func (a *app) settled(ctx context.Context, s *session, o object, generation int64, wait bool) error {
	document := a.output.value == formatJSON || a.output.value == formatYAML
	if !wait {
		if !document {
			return nil
		}
		p, err := s.status(ctx, o)
		if err != nil {
			return err
		}
		return a.print(p, nil)
	}
	out := a.progress(1)
	p, err := s.waitServing(ctx, o, generation, out)
	out.done()
	if err != nil {
		return err
	}
	return a.print(p, func(w io.Writer, _ bool) error {
		_, err := fmt.Fprintf(w, "%s: serves at %s\n", o, endpoint(p.Status.IP, p.Status.Port))
		return err
	})
}

// objects are the proxies named by arguments or by the documents in files.
func (a *app) objects(names, files []string) ([]object, error) {
	var out []object
	for _, n := range names {
		o, err := a.objectArg(n)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	if len(files) == 0 {
		return out, nil
	}
	ms, err := a.manifests(files, false)
	for _, m := range ms {
		out = append(out, m.object)
	}
	return out, err
}

// maxParallel bounds how many proxies one command works on at once.
const maxParallel = 16

// each runs f for all, several at once, and goes on after a failure. The error
// joins the failures in the order of all.
func each[T any](ctx context.Context, all []T, f func(context.Context, T) error) error {
	errs := make([]error, len(all))
	slots := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	for i, x := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(ctx, x)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// lockedWriter lets several goroutines print whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
