package config

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// ErrUnknownSecret is wrapped by the error for a reference that the
// configuration does not define.
var ErrUnknownSecret = errors.New("no such secret")

// Secret reads the value behind a reference, byte for byte: cloud-init reaches
// the guest exactly as it stands in the file, its last newline included. The
// value is read anew by each call, so a rotated file is seen at once.
//
// Errors name the reference and where it points to, never the value. An
// undefined reference wraps ErrUnknownSecret; a missing file or variable, an
// empty value and one of more than 1 MiB are errors too.
func (c *Config) Secret(ctx context.Context, name string) (provider.Sensitive, error) {
	if err := ctx.Err(); err != nil {
		return provider.Sensitive{}, err
	}
	s, ok := c.Secrets[name]
	if !ok {
		return provider.Sensitive{}, fmt.Errorf("secret %q: %w: secrets in %s defines %s", name, ErrUnknownSecret, c.File, list(sorted(c.Secrets)))
	}
	b, err := s.read()
	if err != nil {
		return provider.Sensitive{}, fmt.Errorf("secret %q: %w", name, err)
	}
	if len(b) == 0 {
		return provider.Sensitive{}, fmt.Errorf("secret %q: %s is empty", name, s)
	}
	return provider.NewSensitive(b), nil
}

// Token is Secret without white space around the value, for tokens, passwords
// and keys: editors end a file with a newline, and no token has one.
func (c *Config) Token(ctx context.Context, name string) (provider.Sensitive, error) {
	s, err := c.Secret(ctx, name)
	if err != nil {
		return provider.Sensitive{}, err
	}
	b := bytes.TrimSpace(s.Reveal())
	if len(b) == 0 {
		return provider.Sensitive{}, fmt.Errorf("secret %q: %s holds only white space", name, c.Secrets[name])
	}
	return provider.NewSensitive(b), nil
}

// String says where the secret is, which is no secret.
func (s Secret) String() string {
	if s.Env != "" {
		return "environment variable " + s.Env
	}
	return "file " + s.File
}

func (s Secret) read() ([]byte, error) {
	if s.Env != "" {
		v, ok := os.LookupEnv(s.Env)
		if !ok {
			return nil, fmt.Errorf("environment variable %s is not set", s.Env)
		}
		return []byte(v), nil
	}
	return readLimited(s.File, maxSecret)
}

// readLimited reads a regular file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return nil, fmt.Errorf("%s is a directory, not a file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes, which is the limit", path, limit)
	}
	return b, nil
}

// ProviderHash identifies what p amounts to: its type, its block, and the
// contents of every secret. All secrets count because the specs of its proxies
// may name any of them: a proxy that waits for one to appear has to be told.
// It is equal on all workers that read the same configuration and share key,
// and tells nothing about a secret to those who lack key. A secret that cannot
// be read counts as absent, and the hash changes once it can.
func (c *Config) ProviderHash(p Provider, key []byte) string {
	k, err := hkdf.Key(sha256.New, key, []byte(c.Installation), "tollgate provider hash", sha256.Size)
	if err != nil { // only for impossible lengths
		panic(err)
	}
	mac := hmac.New(sha256.New, k)
	// Every part is preceded by its length, so that no two lists of parts are
	// the same bytes.
	part := func(b []byte) {
		fmt.Fprintf(mac, "%d:", len(b))
		mac.Write(b)
	}
	part([]byte(p.Name))
	part([]byte(p.Type))
	part(p.canonical())
	c.writeSecrets(part)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// secretsVersion changes with the contents of the secrets. It stays in memory.
func (c *Config) secretsVersion() string {
	h := sha256.New()
	c.writeSecrets(func(b []byte) {
		fmt.Fprintf(h, "%d:", len(b))
		h.Write(b)
	})
	return hex.EncodeToString(h.Sum(nil))
}

func (c *Config) writeSecrets(part func([]byte)) {
	for _, name := range sorted(c.Secrets) {
		part([]byte(name))
		b, err := c.Secrets[name].read()
		if err != nil {
			part([]byte("unavailable"))
			continue
		}
		part([]byte("value"))
		part(b)
	}
}

// canonical renders the block without comments, positions and key order, so that
// only a change of meaning changes the hash.
func (p Provider) canonical() []byte {
	if p.block == nil {
		return nil
	}
	var v any
	if err := p.block.Node().Decode(&v); err != nil {
		return nil
	}
	b, err := yaml.Marshal(v) // sorts the keys of maps
	if err != nil {
		return nil
	}
	return b
}

// list renders names for a message.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
