package openstacksim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// seen notes what an answer tells and changes it as told.
func (f *Faults) seen(r *http.Request, rec *httptest.ResponseRecorder) []byte {
	body := rec.Body.Bytes()
	var doc map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	kind := listed(r)
	if rec.Code >= 300 || kind == "" && !strings.Contains(r.URL.Path, "/servers") || d.Decode(&doc) != nil {
		return body
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if one, ok := doc["server"].(map[string]any); ok {
		if creating(r) {
			if f.born == nil {
				f.born = map[string]time.Time{}
			}
			f.born[fmt.Sprint(one["id"])] = time.Now()
		}
		f.change(one)
	}
	all, _ := doc[kind].([]any)
	if n := len(all); n > 0 {
		if f.pages == nil {
			f.pages = map[string]int{}
		}
		f.pages[marker(all[n-1])] = f.page(r)
	}
	if kind == "servers" {
		kept := []any{}
		for _, x := range all {
			one, _ := x.(map[string]any)
			lag := f.lag
			if r.URL.Query().Get("name") != "" {
				lag = f.named
			}
			if at, ok := f.born[fmt.Sprint(one["id"])]; ok && time.Since(at) < lag {
				continue
			}
			f.change(one)
			kept = append(kept, one)
		}
		all = kept
	}
	if kind != "" && all != nil {
		if f.list != nil {
			all = f.list(kind, all)
		}
		doc[kind] = all
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return body
	}
	return out
}

// marker is what the page after an entry is asked for by.
func marker(entry any) string {
	one, _ := entry.(map[string]any)
	if id := one["request_id"]; id != nil {
		return fmt.Sprint(id)
	}
	return fmt.Sprint(one["id"])
}

func (f *Faults) change(one map[string]any) {
	if e := f.edit[fmt.Sprint(one["name"])]; e != nil {
		e(one)
	}
}

// answer writes the error in the form of the service that was asked.
func (x *fault) answer(w http.ResponseWriter, r *http.Request) {
	if x.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(x.RetryAfter/time.Second)))
	}
	if x.Body != "" {
		w.WriteHeader(x.Status)
		_, _ = w.Write([]byte(x.Body))
		return
	}
	kinds := map[int]string{400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound", 409: "conflictingRequest",
		413: "overLimit", 422: "unprocessableEntity", 429: "overLimit", 503: "serviceUnavailable"}
	name := x.Name
	var doc map[string]any
	switch {
	case x.Status == http.StatusUnauthorized || strings.Contains(r.URL.Path, "/auth/"):
		doc = map[string]any{"error": map[string]any{"code": x.Status, "title": http.StatusText(x.Status), "message": x.Message}}
	case strings.Contains(r.URL.Path, "/v2.0/"):
		if name == "" {
			name = "HTTP" + strings.ReplaceAll(http.StatusText(x.Status), " ", "")
		}
		doc = map[string]any{"NeutronError": map[string]any{"type": name, "message": x.Message, "detail": ""}}
	default:
		if name == "" {
			if name = kinds[x.Status]; name == "" {
				name = "computeFault"
			}
		}
		doc = map[string]any{name: map[string]any{"code": x.Status, "message": x.Message}}
	}
	writeJSON(w, x.Status, doc)
}
