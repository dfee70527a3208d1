// Package codec encrypts what Tollgate stores at Temporal: the payloads of
// workflows, activities, signals, queries and memos, and the text of failures.
// Keys live in a key file (see Open), can be rotated without a restart, and old
// keys go on decoding for as long as the file holds them.
//
// A payload is sealed with AES-256-GCM. Its key is derived with HKDF-SHA256 from
// the key of the file and a random salt, so the number of payloads that one key
// of the file may seal has no practical limit. The key id, in the clear in the
// payload's metadata, is authenticated with it.
package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

const (
	// Encoding is the value of the metadata "encoding" of a sealed payload.
	Encoding = "binary/encrypted"
	// MetadataKeyID is the metadata that names the key of a sealed payload.
	MetadataKeyID = "encryption-key-id"

	// formatV1 is the first byte of the data: it is followed by the salt, the
	// nonce and the ciphertext with its tag.
	formatV1 = 1
	saltSize = 16
	keySize  = 32
	// associated is authenticated with every payload, followed by the key id.
	associated = "tollgate payload v1\x00"
	deriveInfo = "tollgate payload key v1"
)

// ErrNotAuthentic says that a sealed payload was changed, or that the key file
// holds another key under its key id.
var ErrNotAuthentic = errors.New("the payload does not authenticate")

// UnknownKeyError says that a payload was sealed with a key that the key file
// does not hold, now or yet.
type UnknownKeyError struct {
	ID   string   // key id of the payload
	File string   // path of the key file
	Held []string // key ids that the file holds, sorted
}

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("the payload is encrypted with key %q, which the key file %s does not hold (it holds %s)",
		e.ID, e.File, strings.Join(e.Held, ", "))
}

// Codec is a converter.PayloadCodec on a key file. It is safe for concurrent
// use. Its errors fail a workflow task, not the workflow: the task is retried,
// and succeeds once the key is there.
type Codec struct{ keys *KeyFile }

var _ converter.PayloadCodec = (*Codec)(nil)

// New makes a codec that seals with the current key of a key file and opens
// with all its keys.
func New(keys *KeyFile) *Codec { return &Codec{keys: keys} }

// Keys returns the key file in use.
func (c *Codec) Keys() *KeyFile { return c.keys }

// Encode seals every payload, metadata included, with the current key.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	k := c.keys.current()
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if p == nil {
			continue
		}
		sealed, err := seal(k, p)
		if err != nil {
			return payloads, taskFailure(err)
		}
		out[i] = sealed
	}
	return out, nil
}

// Decode opens every sealed payload and passes the others through, so that JSON
// typed by a person works. It fails as a whole: with UnknownKeyError when a key
// is missing, with ErrNotAuthentic when a payload was changed.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != Encoding {
			out[i] = p
			continue
		}
		k, err := c.keys.lookup(string(p.GetMetadata()[MetadataKeyID]))
		if err != nil {
			return payloads, taskFailure(err)
		}
		opened, err := open(k, p.GetData())
		if err != nil {
			return payloads, taskFailure(err)
		}
		out[i] = opened
	}
	return out, nil
}

// DataConverter is the SDK's default data converter with every payload sealed.
// With a nil codec it is the default data converter.
func DataConverter(c converter.PayloadCodec) converter.DataConverter {
	if c == nil {
		return converter.GetDefaultDataConverter()
	}
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c)
}

// FailureConverter is the SDK's default failure converter with message, stack
// trace and details of every failure sealed. The type of an application error,
// our error class, stays readable. With a nil codec nothing is sealed.
func FailureConverter(c converter.PayloadCodec) converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter:          DataConverter(c),
		EncodeCommonAttributes: c != nil,
	})
}

func taskFailure(err error) error { return converter.NewWorkflowTaskFailureError(err) }

func seal(k key, p *commonpb.Payload) (*commonpb.Payload, error) {
	plain, err := proto.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encrypt payload: %w", err)
	}
	data := make([]byte, 1+saltSize, 1+saltSize+12+len(plain)+16)
	data[0] = formatV1
	_, _ = rand.Read(data[1:]) // never fails, see crypto/rand
	aead, err := k.aead(data[1:])
	if err != nil {
		return nil, fmt.Errorf("encrypt payload: %w", err)
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{
			converter.MetadataEncoding: []byte(Encoding),
			MetadataKeyID:              []byte(k.id),
		},
		Data: aead.Seal(data, nil, plain, []byte(associated+k.id)),
	}, nil
}

func open(k key, data []byte) (*commonpb.Payload, error) {
	if len(data) < 1+saltSize {
		return nil, fmt.Errorf("decrypt payload with key %q: %d bytes are too few: %w", k.id, len(data), ErrNotAuthentic)
	}
	if data[0] != formatV1 {
		return nil, fmt.Errorf("decrypt payload with key %q: format %d is not known, only %d is", k.id, data[0], formatV1)
	}
	aead, err := k.aead(data[1 : 1+saltSize])
	if err != nil {
		return nil, fmt.Errorf("decrypt payload: %w", err)
	}
	plain, err := aead.Open(nil, nil, data[1+saltSize:], []byte(associated+k.id))
	if err != nil {
		return nil, fmt.Errorf("decrypt payload with key %q: %w", k.id, ErrNotAuthentic)
	}
	p := &commonpb.Payload{}
	if err := proto.Unmarshal(plain, p); err != nil {
		return nil, fmt.Errorf("decrypt payload with key %q: %w", k.id, err)
	}
	return p, nil
}

// aead derives the key of one payload. The nonce is random and leads the
// ciphertext.
func (k key) aead(salt []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, k.secret, salt, deriveInfo, keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
