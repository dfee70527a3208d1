//go:build e2e

package main

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

// The Reporting API keeps its token and what it was told, and the link that is
// printed opens its pages.
func TestReportingAPIOutlivesARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	made := event.New(event.VolumeCreate, time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), event.Data{Platform: event.Hetzner, Account: "acme",
		Resource: event.Resource{Type: event.Volume, ID: "1"}, Change: event.ChangeCreate, Size: event.Size{event.SizeGB: event.Int(10)}})
	var tokens []string
	for _, want := range []sink.Outcome{sink.Accepted, sink.Duplicate} {
		p := s.start(t).running()
		b, err := os.ReadFile(filepath.Join(s.dir, "reporting-token"))
		if err != nil {
			t.Fatal(err)
		}
		token := strings.TrimSpace(string(b))
		tokens = append(tokens, token)
		client, err := reporting.New(reporting.Options{URL: s.url(flagReporting, ""), Token: func(context.Context) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte(token)), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := client.PostEvent(t.Context(), made); err != nil || r.Outcome != want {
			t.Errorf("delivered: %v, %v, want %s", r.Outcome, err, want)
		}
		link := s.url(flagReporting, "/login?token=") + url.QueryEscape(token)
		if !strings.Contains(p.output(), link) {
			t.Errorf("the announcement lacks %q", link)
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Jar: jar}).Get(link)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/" {
			t.Errorf("the link leads to %s with status %d", resp.Request.URL.Path, resp.StatusCode)
		}
		p.signal(os.Interrupt)
		if code := p.ended(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	if tokens[0] != tokens[1] {
		t.Error("the token was replaced")
	}
}

func TestDemoDayNeedsARunningCloud(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if p := s.launch(t, "demo-day", "--state-dir", s.dir); p.ended() != exitFailure || !strings.Contains(p.output(), "no tollgate-dev runs in "+s.dir) {
		t.Errorf("nothing runs: %s", p.output())
	}
	running := s.start(t).running()
	if p := s.launch(t, "demo-day", "--state-dir", s.dir); p.ended() != exitFailure || !strings.Contains(p.output(), "without a simulated cloud: start it with --with hetzner-sim") {
		t.Errorf("without a cloud: %s", p.output())
	}
	running.signal(os.Interrupt)
	if code := running.ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(filepath.Join(s.dir, addressesName)); err == nil {
		t.Error("the addresses are left")
	}
}
