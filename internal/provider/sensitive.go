package provider

import (
	"errors"
	"log/slog"
)

// Redacted is what a Sensitive prints.
const Redacted = "[redacted]"

// Sensitive holds bytes that must never be shown. Every way of printing or
// encoding it gives Redacted or an error; Reveal is the one way to the bytes.
type Sensitive struct{ b []byte }

// NewSensitive wraps b without copying it.
func NewSensitive(b []byte) Sensitive { return Sensitive{b: b} }

// Reveal returns the bytes. Do not modify them.
func (s Sensitive) Reveal() []byte { return s.b }

// Len is the number of bytes, the one fact that may be logged.
func (s Sensitive) Len() int { return len(s.b) }

func (s Sensitive) String() string       { return Redacted }
func (s Sensitive) GoString() string     { return Redacted }
func (s Sensitive) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText refuses: a Sensitive in an encoded struct is a mistake, and an
// encoded placeholder would hide it.
func (s Sensitive) MarshalText() ([]byte, error) {
	return nil, errors.New("a sensitive value cannot be encoded")
}
