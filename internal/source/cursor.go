package source

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// EncodeCursor makes a cursor of a source's own state: JSON in base64, so that
// nobody is tempted to read or to write it.
func EncodeCursor(state any) Cursor {
	b, err := json.Marshal(state)
	if err != nil {
		panic(fmt.Errorf("source: cursor state %T: %w", state, err)) // a mistake in the program
	}
	return Cursor(base64.RawURLEncoding.EncodeToString(b))
}

// DecodeCursor reads what EncodeCursor made. An empty cursor leaves state as it
// is. Anything else that cannot be read is Permanent with ReasonBadCursor.
func DecodeCursor(op provider.Op, name string, c Cursor, state any) error {
	if c == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(string(c))
	if err == nil {
		err = json.Unmarshal(b, state)
	}
	if err != nil {
		return BadCursor(op, name, err)
	}
	return nil
}

// BadCursor is the error for a cursor or reference that is none of this
// source's.
func BadCursor(op provider.Op, name string, err error) error {
	return provider.WithReason(provider.Wrap(provider.Permanent, op, name, "",
		fmt.Errorf("cursor: is none of this source's: %w", err)), ReasonBadCursor)
}
