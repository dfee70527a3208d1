package reportingserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
)

const (
	cookieName      = "tollgate_reporting"
	sessionLifetime = 12 * time.Hour
)

// sessions tells who knows a token. A session of the pages is a signed expiry:
// nothing is kept, it survives a restart and ends with its token.
type sessions []key

type key struct {
	sum  [sha256.Size]byte
	sign []byte
}

func newSessions(tokens []provider.Sensitive) sessions {
	var all sessions
	for _, t := range tokens {
		mac := hmac.New(sha256.New, t.Reveal())
		mac.Write([]byte("tollgate reporting session v1"))
		all = append(all, key{sha256.Sum256(t.Reveal()), mac.Sum(nil)})
	}
	return all
}

// open says whether everybody is let in.
func (s sessions) open() bool { return len(s) == 0 }

// token finds the key of a token. It takes the same time whatever is equal.
func (s sessions) token(given string) (k key, ok bool) {
	sum := sha256.Sum256([]byte(given))
	for _, c := range s {
		if subtle.ConstantTimeCompare(c.sum[:], sum[:]) == 1 {
			k, ok = c, true
		}
	}
	return k, ok
}

func (k key) signature(expiry string) string {
	mac := hmac.New(sha256.New, k.sign)
	mac.Write([]byte(expiry))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (s sessions) cookie(r *http.Request, now time.Time) bool {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	expiry, given, _ := strings.Cut(c.Value, ".")
	unix, err := strconv.ParseInt(expiry, 10, 64)
	if err != nil || !now.Before(time.Unix(unix, 0)) {
		return false
	}
	for _, k := range s {
		if hmac.Equal([]byte(given), []byte(k.signature(expiry))) {
			return true
		}
	}
	return false
}

func (k key) newCookie(now time.Time, secure bool) *http.Cookie {
	expiry := strconv.FormatInt(now.Add(sessionLifetime).Unix(), 10)
	return &http.Cookie{
		Name: cookieName, Value: expiry + "." + k.signature(expiry), Path: "/", MaxAge: int(sessionLifetime.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}

// authorized lets requests of the API pass that carry a token. The document and
// the health are for everybody.
func (s *Server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.session.open() || r.Pattern == "GET /healthz" || r.Pattern == "GET /api/v1/openapi.yaml" {
			next.ServeHTTP(w, r)
			return
		}
		challenge, detail := `Bearer realm="tollgate-reporting"`, ""
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		switch _, ok := s.session.token(strings.TrimSpace(given)); {
		case r.Header.Get("Authorization") == "":
			detail = "the header Authorization is missing: send Bearer and the token"
		case !strings.EqualFold(scheme, "Bearer"):
			detail = "the header Authorization is of another scheme: send Bearer and the token"
		case !ok:
			challenge += `, error="invalid_token"`
			detail = "the token is not the right one"
		default:
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", challenge)
		problem{api.UrnTollgateProblemUnauthorized, http.StatusUnauthorized, "Unauthorized", detail}.write(w)
	})
}
