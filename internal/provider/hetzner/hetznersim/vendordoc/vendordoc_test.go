package vendordoc_test

import (
	"net/url"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim/vendordoc"
)

func TestCheckRequest(t *testing.T) {
	t.Parallel()
	doc, err := vendordoc.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		method, path, query, body string
		ok                        bool
	}{
		"good list":          {"GET", "/servers", "name=a&status=off&status=running&sort=id:desc&page=2", "", true},
		"unknown parameter":  {"GET", "/servers", "colour=red", "", false},
		"wrong status":       {"GET", "/servers", "status=asleep", "", false},
		"page is no number":  {"GET", "/servers", "page=x", "", false},
		"page given twice":   {"GET", "/servers", "page=1&page=2", "", false},
		"ids":                {"GET", "/actions", "id=1&id=2", "", true},
		"good create":        {"POST", "/servers", "", `{"name":"a","server_type":"cx23","image":"debian-12"}`, true},
		"type is missing":    {"POST", "/servers", "", `{"name":"a","image":"debian-12"}`, false},
		"datacenter is gone": {"POST", "/servers", "", `{"name":"a","server_type":"cx23","image":"debian-12","datacenter":"fsn1-dc14"}`, false},
		"unknown operation":  {"PATCH", "/servers/1", "", "", false},
		"body not expected":  {"POST", "/servers/1/actions/poweron", "", `{"x":1}`, false},
		"no JSON":            {"POST", "/servers", "", `{`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, err := url.ParseQuery(tc.query)
			if err != nil {
				t.Fatal(err)
			}
			err = doc.CheckRequest(tc.method, tc.path, q, []byte(tc.body))
			if (err == nil) != tc.ok {
				t.Errorf("CheckRequest: %v, want ok %v", err, tc.ok)
			}
		})
	}
}

func TestCheckAnswer(t *testing.T) {
	t.Parallel()
	doc, err := vendordoc.Load()
	if err != nil {
		t.Fatal(err)
	}
	const key = `{"id":1,"name":"k","fingerprint":"aa","public_key":"ssh-ed25519 x","labels":{},"created":"2026-01-01T00:00:00+00:00"}`
	for name, tc := range map[string]struct {
		method, path string
		status       int
		body         string
		ok           bool
	}{
		"good":           {"GET", "/ssh_keys/1", 200, `{"ssh_key":` + key + `}`, true},
		"field missing":  {"GET", "/ssh_keys/1", 200, `{"ssh_key":{"id":1}}`, false},
		"field too many": {"GET", "/ssh_keys/1", 200, `{"ssh_key":` + key[:len(key)-1] + `,"colour":"red"}}`, false},
		"wrong status":   {"GET", "/ssh_keys/1", 201, `{"ssh_key":` + key + `}`, false},
		"no content":     {"DELETE", "/ssh_keys/1", 204, ``, true},
		"content":        {"DELETE", "/ssh_keys/1", 204, `{}`, false},
		"error":          {"GET", "/ssh_keys/1", 404, `{"error":{"code":"not_found","message":"x","details":null}}`, true},
		"bad error":      {"GET", "/ssh_keys/1", 404, `{"error":"not_found"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := doc.CheckAnswer(tc.method, tc.path, tc.status, []byte(tc.body))
			if (err == nil) != tc.ok {
				t.Errorf("CheckAnswer: %v, want ok %v", err, tc.ok)
			}
		})
	}
}
