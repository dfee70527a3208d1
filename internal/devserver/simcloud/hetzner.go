package simcloud

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// HetznerName is the name of the simulator on the command line.
const HetznerName = "hetzner-sim"

// HetznerProvider is the name of the provider that it adds.
const HetznerProvider = "hetzner"

// hetznerNetwork is where its instances have their addresses.
var hetznerNetwork = netip.MustParsePrefix("127.78.0.0/16")

const (
	tokenFile = "token"
	stateFile = "state.json"
)

// Hetzner is a running simulator of Hetzner Cloud.
type Hetzner struct {
	dir, addr, token string
	sim, day         *hetznersim.Sim
	machines         *Machines
	server           *http.Server
}

// StartHetzner runs the simulator on a free port of loopback. dir keeps its
// token and its state: started again there, servers that ran run again at their
// addresses.
func StartHetzner(dir string, log *slog.Logger) (*Hetzner, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", HetznerName, err)
	}
	token, err := ensureToken(filepath.Join(dir, tokenFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", HetznerName, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", HetznerName, err)
	}
	log = log.With("component", HetznerName)
	h := &Hetzner{dir: dir, addr: l.Addr().String(), token: token, machines: NewMachines(hetznerNetwork, log)}
	h.sim = hetznersim.New(hetznersim.Options{Backend: h.machines, StateFile: filepath.Join(dir, stateFile), Logger: log})
	h.sim.AddProject("tollgate-dev", token)
	h.day = newDay(dir, token, log)
	h.server = &http.Server{Handler: h.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	go func() {
		if err := h.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("simulator ended", "error", err)
		}
	}()
	return h, nil
}

// ensureToken reads the token and makes it the first time.
func ensureToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		if token := strings.TrimSpace(string(b)); token != "" {
			return token, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	token := base64.RawURLEncoding.EncodeToString(raw)
	return token, os.WriteFile(path, []byte(token+"\n"), 0o600)
}

// Endpoint is the base URL of its API, AdminURL that of what tells it to fail.
func (h *Hetzner) Endpoint() string { return "http://" + h.addr + hetznersim.BasePath }

// AdminURL is the base URL of the paths by which the simulator itself is told
// what to do: faults, sold-out types, limits.
func (h *Hetzner) AdminURL() string { return "http://" + h.addr + "/_sim" }

// TokenFile holds the API token.
func (h *Hetzner) TokenFile() string { return filepath.Join(h.dir, tokenFile) }

// Config is what a configuration needs to use it, as an overlay of
// config.Options.
func (h *Hetzner) Config() []byte {
	return fmt.Appendf(nil, `providers:
  - name: %s
    type: hetzner
    drift: {interval: 15s}
    hetzner:
      token: hetzner-sim-token
      endpoint: %s
      image: debian-13
      candidates:
        - {location: nbg1, serverType: cx23}
        - {location: fsn1, serverType: cx23}
      firewall: {allowFrom: [127.0.0.0/8]}
      poll: 500ms
secrets:
  hetzner-sim-token: {file: %q}
`, HetznerProvider, h.Endpoint(), h.TokenFile())
}

// Close stops the simulator and its proxies, and keeps its state.
func (h *Hetzner) Close(ctx context.Context) error {
	err := h.server.Shutdown(ctx)
	err = errors.Join(err, h.sim.Close(ctx), h.day.Close(ctx))
	h.machines.Close()
	return err
}
