package codec_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

const (
	token  = "TOKEN-5e55-10n"
	origin = "http://localhost:8233"
	uiURL  = "http://localhost:8233/namespaces/default"
)

type fixture struct {
	codec *codec.Codec
	url   string
	log   *syncBuffer
	now   time.Time
}

func serve(t *testing.T, change func(*codec.HandlerOptions)) *fixture {
	t.Helper()
	f := &fixture{codec: openCodec(t, keyFile(t)), log: &syncBuffer{}, now: time.Now()}
	o := codec.HandlerOptions{
		Codec: f.codec, Token: provider.NewSensitive([]byte(token)), AllowedOrigins: []string{origin}, LoginRedirect: uiURL,
		Logger: slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.Level(-100)})),
		Now:    func() time.Time { return f.now },
	}
	if change != nil {
		change(&o)
	}
	h, err := codec.NewHandler(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

func body(t *testing.T, payloads ...*commonpb.Payload) string {
	t.Helper()
	b, err := protojson.Marshal(&commonpb.Payloads{Payloads: payloads})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (f *fixture) do(t *testing.T, method, path, content string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// TestRemoteCodecProtocol uses the SDK's own remote codec, which speaks as the
// temporal CLI does.
func TestRemoteCodecProtocol(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{
		Endpoint: f.url + codec.PathPrefix,
		ModifyRequest: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("X-Namespace", "default")
			return nil
		},
	})
	in := []*commonpb.Payload{payload(sentinel), payload("two")}
	sealed, err := remote.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(sealed[0].Metadata["encoding"]); got != codec.Encoding {
		t.Errorf("encoding is %q, want %q", got, codec.Encoding)
	}
	for name, c := range map[string]converter.PayloadCodec{"remote": remote, "local": f.codec} {
		out, err := c.Decode(append(sealed, payload("clear")))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(in, payload("clear")), out, protocmp.Transform()); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
	// As the web UI asks.
	resp, got := f.do(t, "POST", codec.PathDecode+"?preserveStorageRefs=true", body(t, sealed...),
		"Authorization", "bearer "+token, "Origin", origin, "Content-Type", "application/json")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, content type %q", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	var decoded commonpb.Payloads
	if err := protojson.Unmarshal([]byte(got), &decoded); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, decoded.Payloads, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if out := f.log.String(); strings.Contains(out, sentinel) || strings.Contains(out, token) {
		t.Errorf("the log shows a secret: %s", out)
	}
}

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	login, _ := f.do(t, "GET", codec.PathLogin+"?token="+token, "")
	cookie := login.Cookies()[0].Name + "=" + login.Cookies()[0].Value
	other := serve(t, func(o *codec.HandlerOptions) { o.Token = provider.NewSensitive([]byte("another")) })
	foreign, _ := other.do(t, "GET", codec.PathLogin+"?token=another", "")
	tests := map[string]struct {
		header []string
		status int
	}{
		"nobody":                       {nil, 401},
		"bearer":                       {[]string{"Authorization", "Bearer " + token}, 200},
		"wrong bearer":                 {[]string{"Authorization", "Bearer " + token + "x"}, 401},
		"empty bearer":                 {[]string{"Authorization", "Bearer "}, 401},
		"token without scheme":         {[]string{"Authorization", token}, 401},
		"basic":                        {[]string{"Authorization", "Basic " + token}, 401},
		"cookie":                       {[]string{"Cookie", cookie}, 200},
		"cookie beside the UI's token": {[]string{"Cookie", cookie, "Authorization", "Bearer of-the-ui"}, 200},
		"token as cookie":              {[]string{"Cookie", "tollgate_codec=" + token}, 401},
		"changed cookie":               {[]string{"Cookie", strings.Replace(cookie, "=", "=9", 1)}, 401},
		"cookie of another token":      {[]string{"Cookie", foreign.Cookies()[0].Name + "=" + foreign.Cookies()[0].Value}, 401},
		"allowed origin":               {[]string{"Cookie", cookie, "Origin", origin}, 200},
		"allowed origin, nobody":       {[]string{"Origin", origin}, 401},
		"foreign origin with cookie":   {[]string{"Cookie", cookie, "Origin", "http://localhost:9999"}, 403},
		"foreign origin with bearer":   {[]string{"Authorization", "Bearer " + token, "Origin", "https://evil.example"}, 403},
		"null origin":                  {[]string{"Cookie", cookie, "Origin", "null"}, 403},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{codec.PathDecode, codec.PathEncode} {
				resp, got := f.do(t, "POST", path, body(t, payload("x")), tt.header...)
				if resp.StatusCode != tt.status {
					t.Errorf("%s: status %d (%s), want %d", path, resp.StatusCode, got, tt.status)
				}
				if tt.status == 403 && resp.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s: a foreign origin may read the answer", path)
				}
				if tt.status == 401 && resp.Header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s: no WWW-Authenticate", path)
				}
			}
		})
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	for _, query := range []string{"", "?token=", "?token=wrong", "?token=" + token + "%00", "?token=" + token[:5]} {
		resp, _ := f.do(t, "GET", codec.PathLogin+query, "")
		if resp.StatusCode != http.StatusUnauthorized || len(resp.Cookies()) != 0 {
			t.Errorf("login%s: status %d with %d cookies, want 401 with none", query, resp.StatusCode, len(resp.Cookies()))
		}
	}
	resp, _ := f.do(t, "GET", codec.PathLogin+"?token="+token, "")
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != uiURL {
		t.Errorf("status %d to %q, want 303 to the UI", resp.StatusCode, resp.Header.Get("Location"))
	}
	if resp.Header.Get("Referrer-Policy") != "no-referrer" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v let the token leak", resp.Header)
	}
	c := resp.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != codec.PathPrefix || c.Secure || strings.Contains(c.Value, token) {
		t.Errorf("cookie %+v", c)
	}
	if strings.Contains(f.log.String(), token) {
		t.Error("the log shows the token")
	}
	if f.log.count("codec login refused") != 5 {
		t.Errorf("log %s, want 5 refused logins", f.log)
	}

	// A session ends by itself.
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(f.url + codec.PathDecode)
	if err != nil {
		t.Fatal(err)
	}
	jar.SetCookies(u, resp.Cookies())
	if len(jar.Cookies(u)) != 1 {
		t.Fatal("a browser would not send the cookie back")
	}
	f.now = f.now.Add(11 * time.Hour)
	if resp, _ := f.do(t, "POST", codec.PathDecode, body(t), "Cookie", c.Name+"="+c.Value); resp.StatusCode != 200 {
		t.Errorf("status %d within the session, want 200", resp.StatusCode)
	}
	f.now = f.now.Add(2 * time.Hour)
	if resp, _ := f.do(t, "POST", codec.PathDecode, body(t), "Cookie", c.Name+"="+c.Value); resp.StatusCode != 401 {
		t.Errorf("status %d after the session, want 401", resp.StatusCode)
	}
}

func TestCookieIsSecureOverTLS(t *testing.T) {
	t.Parallel()
	h, err := codec.NewHandler(codec.HandlerOptions{Codec: openCodec(t, keyFile(t)), Token: provider.NewSensitive([]byte(token)), LoginRedirect: uiURL})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", codec.PathLogin+"?token="+token, nil)
	r.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if c := w.Result().Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("cookies %v, want one that is secure", c)
	}
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	resp, _ := f.do(t, "OPTIONS", codec.PathDecode, "", "Origin", origin,
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,x-namespace",
		"Access-Control-Request-Private-Network", "true")
	got := map[string]string{}
	for _, k := range []string{"Origin", "Credentials", "Methods", "Headers", "Private-Network"} {
		got[k] = resp.Header.Get("Access-Control-Allow-" + k)
	}
	want := map[string]string{"Origin": origin, "Credentials": "true", "Methods": "POST, OPTIONS", "Headers": "content-type,x-namespace", "Private-Network": "true"}
	if diff := cmp.Diff(want, got); diff != "" || resp.StatusCode != http.StatusNoContent {
		t.Errorf("status %d, headers (-want +got):\n%s", resp.StatusCode, diff)
	}
	if resp, _ := f.do(t, "OPTIONS", codec.PathDecode, "", "Origin", "https://evil.example"); resp.StatusCode != http.StatusForbidden ||
		resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("foreign origin: status %d, headers %v", resp.StatusCode, resp.Header)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := serve(t, func(o *codec.HandlerOptions) { o.MaxBody = 10_000 })
	sealed := encodeOne(t, openCodec(t, keyFile(t)), payload(sentinel))
	tests := map[string]struct {
		method, path, content string
		status                int
		text                  string
	}{
		"no JSON":      {"POST", codec.PathDecode, sentinel, 400, ""},
		"empty":        {"POST", codec.PathDecode, "", 400, ""},
		"too large":    {"POST", codec.PathDecode, strings.Repeat(" ", 10_001), 413, "larger than 10000 bytes"},
		"unknown key":  {"POST", codec.PathDecode, body(t, sealed), 400, "is encrypted with key"},
		"get":          {"GET", codec.PathDecode, "", 405, ""},
		"login posted": {"POST", codec.PathLogin, "", 405, ""},
		"other path":   {"POST", "/codec/other", "{}", 404, ""},
		"path suffix":  {"POST", "/codec/x/decode", "{}", 404, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, got := f.do(t, tt.method, tt.path, tt.content, "Authorization", "Bearer "+token)
			if resp.StatusCode != tt.status || !strings.Contains(got, tt.text) {
				t.Errorf("status %d with %q, want %d with %q", resp.StatusCode, got, tt.status, tt.text)
			}
		})
	}
	if strings.Contains(f.log.String(), sentinel) {
		t.Error("the log shows a payload")
	}
}

func TestNewHandlerRefuses(t *testing.T) {
	t.Parallel()
	c := openCodec(t, keyFile(t))
	good := func() codec.HandlerOptions {
		return codec.HandlerOptions{Codec: c, Token: provider.NewSensitive([]byte(token)), AllowedOrigins: []string{origin}, LoginRedirect: uiURL}
	}
	tests := map[string]struct {
		change func(*codec.HandlerOptions)
		want   string
	}{
		"no codec":            {func(o *codec.HandlerOptions) { o.Codec = nil }, "no codec"},
		"no token":            {func(o *codec.HandlerOptions) { o.Token = provider.Sensitive{} }, "token must not be empty"},
		"any origin":          {func(o *codec.HandlerOptions) { o.AllowedOrigins = []string{"*"} }, `"*" is not an origin`},
		"origin with path":    {func(o *codec.HandlerOptions) { o.AllowedOrigins = []string{origin + "/"} }, "is not an origin"},
		"origin with capital": {func(o *codec.HandlerOptions) { o.AllowedOrigins = []string{"http://LocalHost:8233"} }, "is not an origin"},
		"no redirect":         {func(o *codec.HandlerOptions) { o.LoginRedirect = "" }, "login redirect"},
		"script redirect":     {func(o *codec.HandlerOptions) { o.LoginRedirect = "javascript:alert(1)" }, "login redirect"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good()
			tt.change(&o)
			if _, err := codec.NewHandler(o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

func FuzzHandler(f *testing.F) {
	h, err := codec.NewHandler(codec.HandlerOptions{Codec: openCodec(f, keyFile(f)), Token: provider.NewSensitive([]byte(token)), LoginRedirect: uiURL})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("decode", []byte(`{"payloads":[{"metadata":{"encoding":"YmluYXJ5L2VuY3J5cHRlZA=="},"data":"AQ=="}]}`))
	f.Add("encode", []byte(`{"payloads":[{}]}`))
	f.Add("encode", []byte(`{"payloads":[null]}`))
	f.Fuzz(func(t *testing.T, op string, content []byte) {
		if op != "decode" && op != "encode" {
			op = "decode"
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", codec.PathPrefix+"/"+op, bytes.NewReader(content))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 && w.Code != 400 {
			t.Errorf("status %d", w.Code)
		}
	})
}
