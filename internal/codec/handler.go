package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Paths of the handler. The remote codec endpoint to configure in Temporal's UI
// and CLI is the server's address with PathPrefix.
const (
	PathPrefix = "/codec"
	PathEncode = PathPrefix + "/encode"
	PathDecode = PathPrefix + "/decode"
	PathLogin  = PathPrefix + "/login"
)

// DefaultMaxBody bounds a request: Temporal's largest message, four megabytes,
// in JSON and base64, with room.
const DefaultMaxBody = 16 << 20

// HandlerOptions are what a codec server needs.
type HandlerOptions struct {
	Codec converter.PayloadCodec
	// Token lets in whoever knows it.
	Token provider.Sensitive
	// AllowedOrigins are the origins of the web UIs that may call, such as
	// http://localhost:8233.
	AllowedOrigins []string
	// LoginRedirect is where a browser goes after its login: the web UI. Its host
	// should be that of the endpoint, since the cookie is not sent across sites.
	LoginRedirect string
	// MaxBody bounds a request in bytes; DefaultMaxBody when zero.
	MaxBody int64
	Logger  *slog.Logger     // nil discards
	Now     func() time.Time // nil is time.Now
}

// handler is Temporal's remote codec protocol with a door in front.
type handler struct {
	o        HandlerOptions
	codec    http.Handler
	sessions sessions
	mux      *http.ServeMux
}

// NewHandler returns the codec server for Temporal's web UI and CLI: POST
// /codec/encode and /codec/decode for whoever sends the token as `Authorization:
// Bearer`, or the cookie that GET /codec/login?token= gives a browser. Everybody
// else gets 401. Payloads are never logged.
func NewHandler(o HandlerOptions) (http.Handler, error) {
	if o.Codec == nil {
		return nil, errors.New("codec server: no codec")
	}
	if o.Token.Len() == 0 {
		return nil, errors.New("codec server: the token must not be empty")
	}
	for _, origin := range o.AllowedOrigins {
		if err := validateOrigin(origin); err != nil {
			return nil, fmt.Errorf("codec server: allowed origin: %w", err)
		}
	}
	if u, err := url.Parse(o.LoginRedirect); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("codec server: login redirect: %q is not an http or https URL", o.LoginRedirect)
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &handler{
		o:        o,
		codec:    converter.NewPayloadCodecHTTPHandler(o.Codec),
		sessions: newSessions(o.Token),
		mux:      http.NewServeMux(),
	}
	h.mux.HandleFunc("GET "+PathLogin, h.login)
	for _, path := range []string{PathEncode, PathDecode} {
		h.mux.HandleFunc("POST "+path, h.convert)
		h.mux.HandleFunc("OPTIONS "+path, h.preflight)
	}
	return h, nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	h.mux.ServeHTTP(w, r)
}

// convert answers POST /codec/encode and /codec/decode.
func (h *handler) convert(w http.ResponseWriter, r *http.Request) {
	if !h.allowOrigin(w, r) {
		return
	}
	if !h.sessions.bearer(r) && !h.sessions.cookie(r, h.o.Now()) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tollgate codec"`)
		http.Error(w, "send the codec token as 'Authorization: Bearer TOKEN', or log in at "+PathLogin+"?token=TOKEN",
			http.StatusUnauthorized)
		return
	}
	// Read here and not by the codec's handler, to tell too large from malformed.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		http.Error(w, fmt.Sprintf("the request is larger than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the request was cut off", http.StatusBadRequest)
		return
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.codec.ServeHTTP(w, r)
}

// preflight answers a browser's question before it calls from the UI's origin.
func (h *handler) preflight(w http.ResponseWriter, r *http.Request) {
	if !h.allowOrigin(w, r) {
		return
	}
	hd := w.Header()
	hd.Set("Access-Control-Allow-Methods", "POST, OPTIONS")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		hd.Set("Access-Control-Allow-Headers", asked)
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		hd.Set("Access-Control-Allow-Private-Network", "true")
	}
	hd.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

// allowOrigin lets a page of an allowed origin read the answer, and refuses
// pages of others. A caller that is no browser sends no origin.
func (h *handler) allowOrigin(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if !slices.Contains(h.o.AllowedOrigins, origin) {
		http.Error(w, "pages of this origin may not use the codec", http.StatusForbidden)
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Allow-Credentials", "true")
	return true
}

// login answers GET /codec/login?token=.
func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer") // the URL holds the token
	if !h.sessions.matches(r.URL.Query().Get("token")) {
		h.o.Logger.Warn("codec login refused", "remote_addr", r.RemoteAddr)
		http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
		return
	}
	h.o.Logger.Info("codec login", "remote_addr", r.RemoteAddr)
	http.SetCookie(w, h.sessions.newCookie(h.o.Now(), r.TLS != nil))
	http.Redirect(w, r, h.o.LoginRedirect, http.StatusSeeOther)
}

func validateOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || s != u.Scheme+"://"+strings.ToLower(u.Host) {
		return fmt.Errorf("%q is not an origin: use scheme://host:port in lower case, without a path", s)
	}
	return nil
}
