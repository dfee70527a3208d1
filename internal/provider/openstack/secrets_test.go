package openstack_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// A cloud that repeats whatever it was told, at each request of a create, a delete
// and a sweep: nothing of it is in an error or in the log.
func TestNoSecretsInAnyText(t *testing.T) {
	t.Parallel()
	const init, password = "#cloud-config\nusers: [{name: proxy, passwd: s3cret-of-the-guest}]\n", "pw-of-the-proxy"
	for _, status := range []int{400, 401, 403, 404, 409, 413, 500} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			for n := range mostRequests {
				b := openstacktest.NewBackend(t, quick())
				var log safeText
				p := b.Open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault("correct-horse").read,
					Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, everything)
				var mu sync.Mutex
				token := ""
				b.OnRequest(func(r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					token = r.Header.Get("X-Auth-Token")
				})
				if _, err := p.List(t.Context(), provider.Selector{}); err != nil {
					t.Fatal(err)
				}
				b.OnRequest(nil)
				req := request("proxy-a")
				req.CloudInit = provider.NewSensitive([]byte(init))
				req.Auth = &provider.BasicAuth{Username: "u", Password: provider.NewSensitive([]byte(password))}
				secrets := []string{"correct-horse", token, "s3cret-of-the-guest", base64.StdEncoding.EncodeToString([]byte(init)), password}
				// What is wrong stays so: cleaning up behind it fails as well.
				echo := b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: status, Skip: n, Message: "bad: " + init + " " + strings.Join(append(secrets[:2:2], secrets[3:]...), " ")})
				var texts []string
				note := func(err error) {
					texts = append(texts, fmt.Sprint(err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err))
				}
				id, err := p.Create(t.Context(), req)
				note(err)
				if id == "" {
					id = "openstack/RegionOne/1353f103-9477-4c9b-94c2-0d1a2ded0e96/proxy-a"
				}
				echo()
				// From here on nobody knows what the guest was given.
				echo = b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: status, Skip: n % 8, Message: "bad: " + strings.Join(secrets[:2], " ")})
				note(p.Delete(t.Context(), id))
				_, err = p.ListCompanions(t.Context(), provider.Selector{})
				note(err)
				for _, st := range p.Check(t.Context()) {
					texts = append(texts, fmt.Sprintf("%+v", st))
				}
				echo()
				texts = append(texts, log.String())
				for _, text := range texts {
					for _, s := range secrets {
						if strings.Contains(text, s) {
							t.Fatalf("after %d requests %q is in %s", n, s, text)
						}
					}
				}
			}
		})
	}
}

// safeText collects text from several goroutines.
type safeText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeText) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }
