// Package page serves the reports of the latest inventories to people, and as JSON
// to programs.
package page

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/inventory/reports"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

//go:embed pages
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"time":  showTime,
	"timep": func(t *time.Time) string { return showTime(*t) },
	"path":  url.PathEscape,
	"bad": func(o api.InventoryOutcome) bool {
		switch o {
		case api.InventoryHeld, api.InventoryIncomplete, api.InventoryUnreadable, api.InventoryDiffers:
			return true
		}
		return false
	},
	"warn": func(a api.DifferenceAction) bool {
		switch a {
		case api.DifferenceHeld, api.DifferenceNone, api.DifferenceRefused, api.DifferenceFailed:
			return true
		}
		return false
	},
}).ParseFS(files, "pages/*.html"))

func showTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

const (
	cookieName      = "tollgate_inventory"
	sessionLifetime = 12 * time.Hour
	readTimeout     = 10 * time.Second
	maxForm         = 64 << 10
)

// Options configure a Handler.
type Options struct {
	Temporal reports.Temporal
	// Sources lists the configured sources.
	Sources func() []string
	// Token returns the token that is asked for; required is false when none is. An
	// error lets nobody in.
	Token  func(ctx context.Context) (token provider.Sensitive, required bool, err error)
	Logger *slog.Logger
}

// Handler answers /inventory and what is below it.
type Handler struct {
	o   Options
	mux *http.ServeMux
}

// New returns a Handler. It is safe for concurrent use.
func New(o Options) *Handler {
	h := &Handler{o: o, mux: http.NewServeMux()}
	h.mux.HandleFunc("GET /inventory", h.guarded(h.list))
	h.mux.HandleFunc("GET /inventory/reports.json", h.guarded(h.listJSON))
	h.mux.HandleFunc("GET /inventory/sources/{source}", h.guarded(h.report))
	h.mux.HandleFunc("GET /inventory/login", func(w http.ResponseWriter, r *http.Request) { h.login(w, r, http.StatusOK, false) })
	h.mux.HandleFunc("POST /inventory/login", h.signIn)
	h.mux.HandleFunc("GET /inventory/style.css", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "pages/style.css") })
	return h
}

// Register adds the routes to mux.
func (h *Handler) Register(mux *http.ServeMux) {
	for _, p := range []string{"/inventory", "/inventory/"} {
		mux.Handle(p, h)
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	h.mux.ServeHTTP(w, r)
}

// guarded lets in who sends the token, or signed in with it.
func (h *Handler) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, required, err := h.o.Token(r.Context())
		switch scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " "); {
		case err != nil:
			h.o.Logger.ErrorContext(r.Context(), "the token of the inventory page cannot be read, requests are refused", "error", err)
			http.Error(w, "the server cannot read the token that requests are compared with; its log says why", http.StatusServiceUnavailable)
		case !required, strings.EqualFold(scheme, "Bearer") && same(strings.TrimSpace(given), token), signedIn(r, token, time.Now()):
			next(w, r)
		case strings.HasSuffix(r.URL.Path, ".json"):
			w.Header().Set("WWW-Authenticate", `Bearer realm="tollgate"`)
			http.Error(w, "send Bearer and the token of the discovery API", http.StatusUnauthorized)
		default:
			http.Redirect(w, r, "/inventory/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		}
	}
}

// same compares in a time that depends neither on the content nor on the length.
func same(given string, token provider.Sensitive) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256(token.Reveal())
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// sign signs an expiry with the token: another token ends all sessions.
func sign(expiry string, token provider.Sensitive) string {
	mac := hmac.New(sha256.New, token.Reveal())
	mac.Write([]byte("tollgate inventory session v1 " + expiry))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func signedIn(r *http.Request, token provider.Sensitive, now time.Time) bool {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	expiry, signature, ok := strings.Cut(c.Value, ".")
	if !ok || !hmac.Equal([]byte(signature), []byte(sign(expiry, token))) {
		return false
	}
	unix, err := strconv.ParseInt(expiry, 10, 64)
	return err == nil && now.Before(time.Unix(unix, 0))
}

func (h *Handler) login(w http.ResponseWriter, r *http.Request, status int, wrong bool) {
	h.show(w, r, status, "login.html", struct {
		Next  string
		Wrong bool
	}{r.FormValue("next"), wrong})
}

func (h *Handler) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	token, required, err := h.o.Token(r.Context())
	if err != nil || required && !same(strings.TrimSpace(r.PostFormValue("token")), token) {
		h.login(w, r, http.StatusUnauthorized, true)
		return
	}
	if required {
		expiry := strconv.FormatInt(time.Now().Add(sessionLifetime).Unix(), 10)
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: expiry + "." + sign(expiry, token), Path: "/inventory",
			MaxAge: int(sessionLifetime / time.Second), HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode,
		})
	}
	// Only a page of this handler: a foreign one could pass for it.
	next, err := url.Parse(r.PostFormValue("next"))
	if err != nil || next.Scheme != "" || next.Host != "" || next.Path != "/inventory" && !strings.HasPrefix(next.Path, "/inventory/sources/") {
		next = &url.URL{Path: "/inventory"}
	}
	http.Redirect(w, r, next.RequestURI(), http.StatusSeeOther)
}

// Entry is what is known of a source.
type Entry struct {
	Source string `json:"source"`
	// Report is the latest, nil when there is none.
	Report *reports.Report `json:"report,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Listed and Reported are sums over the streams.
func (e Entry) Listed() (n int) {
	for _, s := range e.Report.Status.Streams {
		n += s.Listed
	}
	return n
}

// Reported is how many resources are open by what was reported.
func (e Entry) Reported() (n int) {
	for _, s := range e.Report.Status.Streams {
		n += s.Reported
	}
	return n
}

// Open is how many differences are left.
func (e Entry) Open() int {
	n := e.Report.Status.Count
	for _, s := range e.Report.Status.Streams {
		for _, k := range s.Repaired {
			n -= k
		}
	}
	return n
}

func (h *Handler) entry(ctx context.Context, source string) Entry {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	e := Entry{Source: source}
	r, ok, err := reports.Latest(ctx, h.o.Temporal, source)
	switch {
	case err != nil:
		h.o.Logger.WarnContext(ctx, "the report of an inventory cannot be read", "source", source, "error", err)
		e.Error = "its report cannot be read; the log says why"
	case ok:
		e.Report = &r
	}
	return e
}

func (h *Handler) entries(ctx context.Context) []Entry {
	names := h.o.Sources()
	out := make([]Entry, len(names))
	var wg sync.WaitGroup
	for i, n := range names {
		wg.Go(func() { out[i] = h.entry(ctx, n) })
	}
	wg.Wait()
	return out
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request) {
	h.show(w, r, http.StatusOK, "list.html", h.entries(r.Context()))
}

func (h *Handler) listJSON(w http.ResponseWriter, r *http.Request) {
	b, err := json.MarshalIndent(map[string]any{"items": h.entries(r.Context())}, "", "  ")
	if err != nil {
		http.Error(w, "the reports cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n')) // a client that has gone is no matter
}

func (h *Handler) report(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("source")
	for _, n := range h.o.Sources() {
		if n != name {
			continue
		}
		e := h.entry(r.Context(), name)
		more := 0
		if e.Report != nil {
			more = e.Report.Status.Count - len(e.Report.Status.Differences)
		}
		h.show(w, r, http.StatusOK, "report.html", struct {
			Title string
			Entry
			More int
		}{"Inventory of " + name, e, more})
		return
	}
	http.Error(w, fmt.Sprintf("no source %q is configured", name), http.StatusNotFound)
}

func (h *Handler) show(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		h.o.Logger.ErrorContext(r.Context(), "a page cannot be made", "page", name, "error", err)
		http.Error(w, "the page cannot be made; the log says why", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that has gone is no matter
}
