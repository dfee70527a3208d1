package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// progress shows how things go: a line per change, and on a terminal one line
// that is kept up to date. It is safe for concurrent use.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	start    time.Time

	mu     sync.Mutex
	last   map[object]string
	noted  map[object]string
	active bool // the terminal's line is not finished
}

// progress makes one for so many proxies. One line can show only one of them.
func (a *app) progress(proxies int) *progress {
	return &progress{
		w: a.env.Stderr, terminal: a.env.Terminal && proxies == 1, now: a.env.Now, start: a.env.Now(),
		last: map[object]string{}, noted: map[object]string{},
	}
}

// show prints the proxy's state if it changed. On a terminal the elapsed time of
// the present state runs on.
func (p *progress) show(o object, x api.Proxy) {
	p.line(o, describe(x))
}

// note prints something that is not a state, once in a row.
func (p *progress) note(o object, text string) {
	p.mu.Lock()
	seen := p.noted[o] == text
	p.noted[o] = text
	p.mu.Unlock()
	if !seen {
		p.line(o, text)
	}
}

func (p *progress) line(o object, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.last[o] != text
	p.last[o] = text
	line := fmt.Sprintf("%s/%s  +%s  %s", o.namespace, o.name, elapsed(p.now().Sub(p.start)), oneLine(text))
	switch {
	case p.terminal:
		if changed && p.active {
			fmt.Fprint(p.w, "\n")
		}
		// Back to the line's start, and clear what is left of the longer one.
		fmt.Fprintf(p.w, "\r%s\x1b[K", line)
		p.active = true
	case changed:
		fmt.Fprintln(p.w, line)
	}
}

// done finishes the terminal's line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active {
		fmt.Fprint(p.w, "\n")
		p.active = false
	}
}

// describe is a proxy's state in one line: the phase, and what stands in its
// way or where it serves.
func describe(x api.Proxy) string {
	var b strings.Builder
	b.WriteString(string(x.Status.Phase))
	h := headline(x)
	if h.Reason != "" {
		fmt.Fprintf(&b, "  %s=%s %s", h.Type, h.Status, h.Reason)
	}
	if h.Message != "" {
		fmt.Fprintf(&b, ": %s", h.Message)
	}
	if served(x, 0) {
		fmt.Fprintf(&b, "  %s", endpoint(x.Status.IP, x.Status.Port))
	}
	if t := x.Status.NextRetry; !t.IsZero() {
		fmt.Fprintf(&b, "  next try at %s", t.UTC().Format("15:04:05"))
	}
	return b.String()
}
