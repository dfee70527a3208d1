//go:build e2e

package e2e

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting"
	reportingapi "github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
)

// TestShootsByHand runs the lines of the guide as they stand there: with our
// command line, and without it.
func TestShootsByHand(t *testing.T) {
	t.Parallel()
	server, err := reportingserver.New(t.Context(), reportingserver.Options{Path: filepath.Join(t.TempDir(), "r.db")})
	if err != nil {
		t.Fatal(err)
	}
	billing := httptest.NewServer(server)
	t.Cleanup(func() {
		billing.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	ask, err := reporting.New(reporting.Options{URL: billing.URL})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".tollgate"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, settings{codec: ", token: token, uiURL: 'http://127.0.0.1:8233'", extra: fmt.Sprintf(`  kube: {file: %q}
sinks:
  - {name: billing, type: reporting, url: %q}
sources:
  - name: garden
    type: gardener
    account: landscape
    sink: billing
    interval: 1h
    inventory: {enabled: false}
    gardener: {kubeconfig: kube}
    registration: {}`, filepath.Join(dir, "kubeconfig"), billing.URL)})
	if err := os.WriteFile(filepath.Join(dir, ".tollgate", "token"), []byte(w.token), 0o600); err != nil {
		t.Fatal(err)
	}
	guide := readDocLines(t, temporalPage)
	before := append(guide.variables("Connect"), guide.variables("Read and send encrypted payloads")...)
	d := readDocLines(t, "docs/how-to/shoot-registration.md")
	d.shell = w.docShell(dir, append(before, "export TOLLGATE_CODEC_KEYS="+w.keys))
	must := func(section, tool string, n int) result { t.Helper(); return d.run(section, tool, n).want(t, 0) }
	// until repeats a line until its output has a text: visibility lags.
	until := func(section, tool string, n int, text string) {
		t.Helper()
		w.eventually(30*time.Second, func() string {
			if r := must(section, tool, n); !strings.Contains(r.stdout, text) {
				return fmt.Sprintf("%s has no %s:\n%s", r.line, text, r.stdout)
			}
			return ""
		})
	}
	const look, hand, cli = "Look", "By hand", "By the temporal CLI"

	must(hand, "tollgate", 1)
	until(look, "tollgate", 1, "hetzner/acme")
	until(look, "tollgate", 3, "hetzner/acme")
	must(cli, "temporal", 1)
	until(cli, "temporal", 2, "Unresolved")
	until(cli, "temporal", 3, "shoot/dev/api/77aa")
	until(look, "tollgate", 2, "dev/api")
	must(cli, "temporal", 4)
	until(cli, "temporal", 2, "Registered")
	must(cli, "temporal", 5)
	must(cli, "temporal", 6)
	must(cli, "temporal", 7)
	must(hand, "tollgate", 2)
	w.eventually(30*time.Second, func() string {
		p, ok, err := ask.FindProject(t.Context(), "gardener", "landscape/dev")
		if err != nil || !ok {
			return fmt.Sprint("no project: ", err)
		}
		all, err := ask.Relations(t.Context(), p.ID, reportingapi.ListRelationsParams{})
		if err != nil || len(all) != 2 {
			return fmt.Sprintf("%d relations, %v", len(all), err)
		}
		for _, r := range all {
			if r.ValidTo == nil || !r.ValidTo.Equal(time.Date(2026, 1, 3, 17, 0, 0, 0, time.UTC)) || !r.ValidFrom.Equal(time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)) {
				return fmt.Sprintf("relation %+v", r)
			}
		}
		return ""
	})
	d.complete()
}
