package cloud

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

// A redirect to another place gets neither the token nor the credentials; one within
// a service is followed.
func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s came with the token %q", r.Method, r.URL, r.Header.Get("X-Auth-Token"))
	}))
	defer elsewhere.Close()
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away", "/v3/auth/tokens":
			http.Redirect(w, r, elsewhere.URL+"/", http.StatusTemporaryRedirect)
		case "/v2.1":
			http.Redirect(w, r, "/v2.1/", http.StatusFound)
		default:
			_, _ = w.Write([]byte(`{}`))
		}
	}))
	defer here.Close()
	target := Access{Auth: Auth{URL: here.URL + "/v3", Username: "u", Project: "p", Password: "pw"}}.Check("openstack", func(f string, a ...any) { t.Errorf(f, a...) })
	c := New(target, Config{})
	c.client.SetToken("the-token")
	service := &gophercloud.ServiceClient{ProviderClient: c.client, Endpoint: here.URL + "/"}
	if _, err := service.Get(t.Context(), here.URL+"/v2.1", &struct{}{}, nil); err != nil {
		t.Errorf("a redirect within a service: %v", err)
	}
	if _, err := service.Get(t.Context(), here.URL+"/away", &struct{}{}, nil); StatusOf(err) != http.StatusTemporaryRedirect {
		t.Errorf("a redirect away: %v", err)
	}
	if _, err := service.Post(t.Context(), here.URL+"/v3/auth/tokens", map[string]string{"password": "hunter2"}, &struct{}{}, nil); StatusOf(err) != http.StatusTemporaryRedirect {
		t.Errorf("a login that is sent away: %v", err)
	}
}

// Access rules are enforced with 401 by whoever checks tokens, as if the credential
// were wrong.
func TestAccessRulesAreNamed(t *testing.T) {
	t.Parallel()
	err := Stable(&gophercloud.ErrErrorAfterReauthentication{ErrOriginal: gophercloud.ErrUnexpectedResponseCode{Method: "GET",
		URL: "http://c/compute/v2.1/limits?x=1", Actual: 401, Body: []byte(`{"error":{"code":401,"message":"The request you have made requires authentication."}}`)}})
	if want := "GET /compute/v2.1/limits is refused"; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "access rules") {
		t.Errorf("want %q: %v", want, err)
	}
}
