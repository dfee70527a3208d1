package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// asProgram makes the test binary be the program.
const asProgram = "TOLLGATE_REPORTING_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start starts the program and returns it with its address.
func start(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no address: %v\n%s", err, log.String())
	}
	return cmd, strings.TrimSpace(address)
}

func volume(i int) event.Event {
	return event.New(event.VolumeCreate, time.Date(2026, 11, 2, 0, 0, i, 0, time.UTC), event.Data{Platform: event.Hetzner, Account: "acme",
		Resource: event.Resource{Type: event.Volume, ID: fmt.Sprint(i)}, Change: event.ChangeCreate, Size: event.Size{event.SizeGB: event.Int(i)}})
}

// The server is killed at 45 moments, spread by a fixed seed, while events arrive. Whatever it
// acknowledged is there afterwards, whole, and batches are there as a whole or
// not at all.
func TestNothingAcknowledgedIsLostWhenItIsKilled(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "reporting.db")
	random := rand.New(rand.NewPCG(1, 2))
	const batch, kills = 7, 45
	acknowledged, next := map[int]bool{}, 0
	for range kills {
		cmd, url := start(t, "--db", db)
		c, err := reporting.New(reporting.Options{URL: url, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		killed := make(chan error, 1)
		// Some batches go well, and then it dies somewhere in the next ones.
		healthy, delay := random.IntN(4), time.Duration(random.IntN(15_000))*time.Microsecond
		for sent := 0; ; sent++ {
			if sent == healthy {
				time.AfterFunc(delay, func() { killed <- cmd.Process.Kill() })
			}
			var events []event.Event
			for i := range batch {
				events = append(events, volume(next+i))
			}
			if _, err := c.PostEvents(t.Context(), events); err != nil {
				break
			}
			for i := range batch {
				acknowledged[next+i] = true
			}
			next += batch
		}
		next += batch // the one in doubt is not sent again: it is whole or absent
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	cmd, url := start(t, "--db", db)
	c, err := reporting.New(reporting.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]event.Event{}
	if err := c.Events(t.Context(), api.ListEventsParams{}, func(e api.StoredEvent) bool { stored[e.Event.ID] = e.Event; return true }); err != nil {
		t.Fatal(err)
	}
	for from := 0; from < next; from += batch {
		n := 0
		for i := from; i < from+batch; i++ {
			e, ok := stored[volume(i).ID]
			if ok {
				n++
			}
			if acknowledged[i] && (!ok || e.Validate() != nil) {
				t.Errorf("%s was acknowledged and is lost", volume(i).ID)
			}
		}
		if n != 0 && n != batch {
			t.Errorf("of the batch from %d, %d events are stored", from, n)
		}
	}
	if len(acknowledged) < batch*kills/3 {
		t.Errorf("only %d events were acknowledged: the kills come too early to prove anything", len(acknowledged))
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func TestTokensFromAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("one\n\n two \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, url := start(t, "--db", filepath.Join(dir, "new", "r.db"), "--token-file", tokens)
	for token, want := range map[string]int{"one": 200, "two": 200, "three": 401, "": 401} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/projects", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != want || !json.Valid(b) {
			t.Errorf("%q: status %d, want %d; %v", token, resp.StatusCode, want, err)
		}
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "text")
	if err := os.WriteFile(newer, []byte(strings.Repeat("this is no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "Usage:"},
		{[]string{"--nothing"}, 2, "flag provided but not defined"},
		{[]string{"serve"}, 2, `"serve" is no flag`},
		{[]string{"--log-level", "loud"}, 2, `--log-level: "loud" is unknown`},
		{[]string{"--listen", ":7270"}, 2, `--listen: ":7270" is not on the loopback interface`},
		{[]string{"--token-file", filepath.Join(dir, "none")}, 2, "--token-file: open"},
		{[]string{"--token-file", empty}, 2, "has no token"},
		{[]string{"--listen", "127.0.0.1:0", "--db", newer}, 1, "file is not a database"},
		{[]string{"--listen", "127.0.0.1:99999", "--db", filepath.Join(dir, "a.db")}, 1, "--listen: "},
	} {
		var out, errs bytes.Buffer
		if code := run(context.Background(), c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: code %d, want %d\n%s", c.args, code, c.code, errs.String())
		}
	}
}

// The metrics have an address of their own, which asks for no token; the others do.
func TestMetricsListener(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--db", filepath.Join(dir, "r.db"), "--token-file", token}, in, io.Discard)
		_ = in.Close()
	}()
	// Both lines are read first: it serves once it has printed them.
	lines := bufio.NewScanner(out)
	var urls []string
	for len(urls) < 2 {
		if !lines.Scan() {
			t.Fatal("no address")
		}
		urls = append(urls, lines.Text())
	}
	for url, status := range map[string]int{urls[0] + "/metrics": http.StatusUnauthorized, urls[1]: http.StatusOK} {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: status %d, want %d", url, resp.StatusCode, status)
		}
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
