//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// life is what happens in the project, and what is expected of it.
type life struct {
	t     testing.TB
	url   string
	mu    sync.Mutex
	want  map[string][]string // by account
	count int
	// last are the two latest volumes: the older one is not locked any more.
	last [2]int64
}

func (l *life) post(path, body string) (id, action int64) {
	l.t.Helper()
	var out struct {
		Volume, Action struct{ ID int64 }
		FloatingIP     struct{ ID int64 } `json:"floating_ip"`
	}
	poll(l.t, 10*time.Second, func() string {
		req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.url+path, strings.NewReader(body))
		if err != nil {
			l.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+simToken)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			l.t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusLocked {
			return path + ": an action is running"
		}
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode >= 300 {
			l.t.Fatalf("%s: status %d, %v", path, resp.StatusCode, err)
		}
		return ""
	})
	return out.Volume.ID + out.FloatingIP.ID, out.Action.ID
}

func (l *life) expect(kind event.ResourceType, id int64, change string, accounts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range accounts {
		l.want[a] = append(l.want[a], event.ID(event.Hetzner, a, event.Resource{Type: kind, ID: fmt.Sprint(id)}, change))
	}
}

// more makes a volume, and resizes an older one or makes a floating IP.
func (l *life) more() {
	l.count++
	id, _ := l.post("/volumes", fmt.Sprintf(`{"name":"v-%d","size":10,"location":"fsn1"}`, l.count))
	l.expect(event.Volume, id, event.ChangeCreate, liveReporting, liveEvents)
	switch {
	case l.count%4 == 0:
		l.floatingIP()
	case l.count%4 == 2 && l.last[0] != 0:
		_, action := l.post(fmt.Sprintf("/volumes/%d/actions/resize", l.last[0]), `{"size":20}`)
		l.expect(event.Volume, l.last[0], event.Change("action", fmt.Sprint(action)), liveReporting, liveEvents)
	}
	l.last = [2]int64{l.last[1], id}
}

// floatingIP makes one, which only one of the sources is about.
func (l *life) floatingIP() {
	l.count++
	id, _ := l.post("/floating_ips", fmt.Sprintf(`{"type":"ipv4","home_location":"fsn1","name":"ip-%d"}`, l.count))
	l.expect(event.FloatingIP, id, event.ChangeCreate, liveEvents)
}

// of is what is expected of accounts, sorted.
func (l *life) of(accounts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for _, a := range accounts {
		out = append(out, l.want[a]...)
	}
	slices.Sort(out)
	return out
}

func expectPast(l *life, account string) {
	for n := range int64(pastActions) {
		change := event.Change("action", fmt.Sprint(n+1))
		switch n % hetznersim.PastLife {
		case 0:
			change = event.ChangeCreate
		case hetznersim.PastLife - 1:
			change = event.ChangeDelete
		}
		l.expect(event.Server, n/hetznersim.PastLife+1, change, account)
	}
}
