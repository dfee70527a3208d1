package reportingserver

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
)

func text[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

func limitOf(p *api.Limit) (int, error) {
	switch {
	case p == nil:
		return defaultLimit, nil
	case *p < 1 || *p > maxLimit:
		return 0, fmt.Errorf("limit: %d is out of range: want 1 to %d", *p, maxLimit)
	}
	return *p, nil
}

// inRange keeps times to those that the database can hold.
func inRange(name string, t *time.Time) error {
	if t != nil && (t.Year() < 1970 || t.Year() > 2200) {
		return fmt.Errorf("%s: the year %d is out of range: want 1970 to 2200", name, t.Year())
	}
	return nil
}

func newToken(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // plain fields cannot fail
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// readToken reads a page token into v, which stays as it is without one.
func readToken(p *api.PageToken, v any) error {
	if p == nil {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(*p)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return errors.New("page_token: is not one that this list gave")
	}
	return nil
}

// maxRequest is the most bytes of a body other than a delivery.
const maxRequest = 64 << 10

// readBody reads a JSON body or answers with what is wrong with it.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, v any) bool {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		s.fail(w, r, readError(err))
		return false
	}
	if err := decode(b, v); err != nil {
		s.fail(w, r, invalid("the body: %v", err))
		return false
	}
	return true
}
