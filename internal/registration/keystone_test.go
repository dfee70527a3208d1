package registration_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/registration"
)

func secret(version string, data map[string]string) registration.Secret {
	s := registration.Secret{Version: version, Data: map[string]provider.Sensitive{}}
	for k, v := range data {
		s.Data[k] = provider.NewSensitive([]byte(v))
	}
	return s
}

// fakeKeystone answers for one project, and checks what it is asked.
type fakeKeystone struct {
	t      *testing.T
	asked  atomic.Int64
	status int
	body   string
}

func (k *fakeKeystone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.asked.Add(1)
	if r.URL.Path != "/identity/v3/auth/tokens" || r.Method != http.MethodPost {
		k.t.Errorf("%s %s", r.Method, r.URL.Path)
	}
	var in struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct {
						Name, Password string
						Domain         struct{ Name string }
					}
				}
				Application struct{ ID, Secret, Name string } `json:"application_credential"`
			}
			Scope struct {
				Project struct {
					Name   string
					Domain struct{ Name string }
				}
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		k.t.Error(err)
	}
	a := in.Auth
	user := a.Identity.Password.User
	good := user.Name == "u" && user.Password == sentinel && user.Domain.Name == "Default" && a.Scope.Project.Name == "tenant-a" && a.Scope.Project.Domain.Name == "Default" ||
		a.Identity.Application.ID == "id" && a.Identity.Application.Secret == sentinel
	switch {
	case k.status == http.StatusTemporaryRedirect:
		http.Redirect(w, r, "http://127.0.0.1:1/", k.status)
	case k.status != 0:
		w.WriteHeader(k.status)
		fmt.Fprint(w, k.body+sentinel)
	case !good:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"no, %s"}}`, sentinel)
	default:
		w.Header().Set("X-Subject-Token", sentinel)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"token":{"project":{"id":"p-1","name":"tenant-a","domain":{"id":"default","name":"Default"}}}}`)
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	k := &fakeKeystone{t: t}
	s := httptest.NewTLSServer(k)
	t.Cleanup(s.Close)
	at := registration.Keystone{URL: s.URL + "/identity/v3/", CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	now := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	ids := &registration.Identities{Now: func() time.Time { return now }}
	want := registration.Identity{ID: "p-1", Name: "tenant-a", Domain: "Default"}
	ask := func(version string, data map[string]string, calls int64) {
		t.Helper()
		if got, err := ids.Identify(t.Context(), at, secret(version, data)); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
		if n := k.asked.Load(); n != calls {
			t.Errorf("asked %d times, want %d", n, calls)
		}
	}
	ask("1", password, 1)
	ask("1", password, 1) // it is remembered
	ask("2", appCred, 2)  // another Secret
	now = now.Add(61 * time.Minute)
	ask("1", password, 3) // for an hour
	wrong := map[string]string{"applicationCredentialID": "id", "applicationCredentialSecret": "x"}
	if _, err := ids.Identify(t.Context(), at, secret("3", wrong)); !errors.Is(err, registration.ErrRefused) {
		t.Errorf("wrong credentials: %v", err)
	}
	at.CA = nil
	if _, err := ids.Identify(t.Context(), at, secret("4", password)); provider.ClassOf(err) != provider.Transient {
		t.Errorf("a certificate that nobody trusts: %v", err)
	}
	at.CA = []byte("x")
	if _, err := ids.Identify(t.Context(), at, secret("5", password)); provider.ClassOf(err) != provider.Permanent {
		t.Errorf("a CA that is none: %v", err)
	}
}

// Whatever a Keystone answers, an error tells nothing of it and follows nowhere.
func TestIdentifyErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		want   provider.Class
	}{
		"down": {503, "", provider.Transient}, "throttled": {429, "", provider.Transient}, "wrong path": {404, "", provider.Permanent},
		"redirect": {307, "", provider.Permanent}, "no json": {201, "<html>", provider.Permanent},
		"no project": {201, `{"token":{}} `, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &fakeKeystone{t: t, status: tc.status, body: tc.body}
			s := httptest.NewServer(k)
			t.Cleanup(s.Close)
			_, err := (&registration.Identities{}).Identify(t.Context(), registration.Keystone{URL: s.URL + "/identity"}, secret("1", password))
			if err == nil || strings.Contains(err.Error(), sentinel) {
				t.Fatalf("error %v", err)
			}
			if tc.want != "" && provider.ClassOf(err) != tc.want {
				t.Errorf("%v: class %s, want %s", err, provider.ClassOf(err), tc.want)
			}
			if n := k.asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
