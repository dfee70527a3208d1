package discovery

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestBearerToken(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.token = "sesame"
	for _, path := range []string{"/v1/proxies", "/v1/proxies/pick"} {
		for header, want := range map[string]struct{ challenge, detail string }{
			"":               {`Bearer realm="tollgate"`, "the header Authorization is missing: send Bearer and the token"},
			"Basic c2VzYW1l": {`Bearer realm="tollgate"`, "the header Authorization is of another scheme: send Bearer and the token"},
			"Bearer":         {`Bearer realm="tollgate", error="invalid_token"`, "the token is not the right one"},
			"Bearer sesam":   {`Bearer realm="tollgate", error="invalid_token"`, "the token is not the right one"},
			"Bearer sesame1": {`Bearer realm="tollgate", error="invalid_token"`, "the token is not the right one"},
		} {
			var headers []string
			if header != "" {
				headers = []string{"Authorization", header}
			}
			w := a.get(path, headers...)
			p := decode[Problem](t, w, http.StatusUnauthorized)
			if got := w.Header().Get("WWW-Authenticate"); got != want.challenge || p.Detail != want.detail {
				t.Errorf("%s with %q: challenge %q, detail %q", path, header, got, p.Detail)
			}
			if strings.Contains(w.Body.String(), "sesame") {
				t.Errorf("the answer shows the token: %s", w.Body)
			}
		}
	}
	for _, header := range []string{"Bearer sesame", "bearer sesame", "Bearer  sesame "} {
		if w := a.get("/v1/proxies", "Authorization", header); w.Code != http.StatusOK {
			t.Errorf("%q: status %d", header, w.Code)
		}
	}
	if w := a.get("/v1/openapi.yaml"); w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), "openapi: 3.1.0") {
		t.Errorf("the document asks for a token: status %d", w.Code)
	}
}

func TestAReloadedTokenCountsAtOnce(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.token = "old"
	a.get("/v1/proxies", "Authorization", "Bearer old")
	a.mu.Lock()
	a.token = "new"
	a.mu.Unlock()
	if w := a.get("/v1/proxies", "Authorization", "Bearer old"); w.Code != http.StatusUnauthorized {
		t.Errorf("the old token: status %d", w.Code)
	}
	if w := a.get("/v1/proxies", "Authorization", "Bearer new"); w.Code != http.StatusOK {
		t.Errorf("the new token: status %d", w.Code)
	}
}

func TestATokenThatCannotBeReadLetsNobodyIn(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.tokErr = errors.New("open /secret/path: permission denied")
	w := a.get("/v1/proxies", "Authorization", "Bearer x")
	p := decode[Problem](t, w, http.StatusServiceUnavailable)
	if p.Type != problemToken || strings.Contains(p.Detail, "/secret/path") {
		t.Errorf("problem %+v", p)
	}
}

func TestAnEmptyTokenMatchesNothing(t *testing.T) {
	t.Parallel()
	if equal(nil, nil) || equal([]byte(""), []byte("")) {
		t.Error("an empty token is a token")
	}
}

func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		w := a.do(t.Context(), method, "/v1/proxies")
		p := decode[Problem](t, w, http.StatusMethodNotAllowed)
		if p.Type != problemMethod || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: problem %+v, Allow %q", method, p, w.Header().Get("Allow"))
		}
	}
	if p := decode[Problem](t, a.get("/v1/proxis"), http.StatusNotFound); p.Type != problemNotFound {
		t.Errorf("problem %+v", p)
	}
	if w := a.do(t.Context(), http.MethodHead, "/v1/proxies"); w.Code != http.StatusOK || w.Header().Get("ETag") == "" {
		t.Errorf("HEAD: status %d", w.Code)
	}
}
