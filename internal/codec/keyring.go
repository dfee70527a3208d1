package codec

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// key is one key of a key file. It prints as its id.
type key struct {
	id     string
	secret []byte
}

func (k key) String() string   { return k.id }
func (k key) GoString() string { return k.id }

// keyring is the content of a key file.
type keyring struct {
	currentID string
	keys      map[string]key
}

func (r *keyring) String() string   { return provider.Redacted }
func (r *keyring) GoString() string { return provider.Redacted }

func (r *keyring) ids() []string {
	ids := make([]string, 0, len(r.keys))
	for id := range r.keys {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

var keyIDRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// parseKeyring reads a key file's content strictly. Its errors hold no key.
func parseKeyring(data []byte) (*keyring, error) {
	var raw struct {
		Current string     `json:"current"`
		Keys    keyEntries `json:"keys"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&raw); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON object")
	}
	r := &keyring{currentID: raw.Current, keys: map[string]key{}}
	for _, e := range raw.Keys {
		if !keyIDRule.MatchString(e.id) {
			return nil, fmt.Errorf("keys: id %q is not allowed: use 1 to 64 letters, digits, '.', '_' and '-', "+
				"starting with a letter or digit", e.id)
		}
		if _, ok := r.keys[e.id]; ok {
			return nil, fmt.Errorf("keys: id %q appears twice", e.id)
		}
		secret, err := base64.StdEncoding.DecodeString(e.value)
		if err != nil {
			return nil, fmt.Errorf("keys.%s: not base64", e.id)
		}
		if len(secret) != keySize {
			return nil, fmt.Errorf("keys.%s: holds %d bytes, want %d", e.id, len(secret), keySize)
		}
		r.keys[e.id] = key{id: e.id, secret: secret}
	}
	if _, ok := r.keys[r.currentID]; !ok {
		return nil, fmt.Errorf("current: %q is none of the keys", r.currentID)
	}
	return r, nil
}

func (r *keyring) format() ([]byte, error) {
	raw := struct {
		Current string            `json:"current"`
		Keys    map[string]string `json:"keys"`
	}{r.currentID, map[string]string{}}
	for id, k := range r.keys {
		raw.Keys[id] = base64.StdEncoding.EncodeToString(k.secret)
	}
	b, err := json.MarshalIndent(raw, "", "  ")
	return append(b, '\n'), err
}

// add makes a key under a new id. Ids are never used twice, not even after the
// key of that id was retired: they carry the day and a random part.
func (r *keyring) add(now time.Time) string {
	for {
		id := "k" + now.UTC().Format("20060102") + "-" + hex.EncodeToString(randomBytes(3))
		if _, taken := r.keys[id]; !taken {
			r.keys[id] = key{id: id, secret: randomBytes(keySize)}
			return id
		}
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	return b
}

// keyEntries keeps the order and the duplicates of a JSON object, which a map
// would hide: two keys under one id are a mistake that loses data.
type keyEntries []struct{ id, value string }

func (e *keyEntries) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return errors.New("keys: want an object of key id to base64")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		id, _ := t.(string)
		var value string
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("keys.%s: want a base64 string", id)
		}
		*e = append(*e, struct{ id, value string }{id, value})
	}
	return nil
}
