package codec

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
)

const (
	cookieName      = "tollgate_codec"
	sessionLifetime = 12 * time.Hour
)

// sessions tells who knows the token. A session is a signed expiry: nothing is
// kept, it survives a restart, and another token ends it.
type sessions struct {
	tokenSum [sha256.Size]byte
	signKey  []byte
}

func newSessions(token provider.Sensitive) sessions {
	mac := hmac.New(sha256.New, token.Reveal())
	mac.Write([]byte("tollgate codec session v1"))
	return sessions{tokenSum: sha256.Sum256(token.Reveal()), signKey: mac.Sum(nil)}
}

// matches compares in a time that depends neither on the content nor on the
// length of the token.
func (s sessions) matches(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], s.tokenSum[:]) == 1
}

func (s sessions) bearer(r *http.Request) bool {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return ok && strings.EqualFold(scheme, "Bearer") && s.matches(strings.TrimSpace(token))
}

func (s sessions) cookie(r *http.Request, now time.Time) bool {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	expiry, signature, ok := strings.Cut(c.Value, ".")
	if !ok || !hmac.Equal([]byte(signature), []byte(s.sign(expiry))) {
		return false
	}
	unix, err := strconv.ParseInt(expiry, 10, 64)
	return err == nil && now.Before(time.Unix(unix, 0))
}

// newCookie is sent back by pages of the same site only: the UI on another port
// of this host, and no foreign page.
func (s sessions) newCookie(now time.Time, secure bool) *http.Cookie {
	expiry := strconv.FormatInt(now.Add(sessionLifetime).Unix(), 10)
	return &http.Cookie{
		Name: cookieName, Value: expiry + "." + s.sign(expiry), Path: PathPrefix,
		MaxAge: int(sessionLifetime / time.Second), HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
}

func (s sessions) sign(expiry string) string {
	mac := hmac.New(sha256.New, s.signKey)
	mac.Write([]byte(expiry))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
