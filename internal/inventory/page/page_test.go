package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tollgate-dev/tollgate/internal/inventory/page"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// fake has one report, of the source "cloud".
type fake struct{ status api.Inventory }

func (f fake) ListWorkflow(_ context.Context, q *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if strings.Contains(q.GetQuery(), "'broken'") {
		return nil, errors.New("secret address")
	}
	r := &workflowservice.ListWorkflowExecutionsResponse{}
	if strings.Contains(q.GetQuery(), "'cloud'") {
		for i, id := range []string{"inventory/cloud-1", "inventory/cloud-2"} {
			r.Executions = append(r.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run"},
				StartTime: timestamppb.New(time.Unix(int64(1000+i), 0))})
		}
	}
	return r, nil
}

func (f fake) QueryWorkflowWithOptions(_ context.Context, q *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	st := f.status
	st.Metadata.Name = q.WorkflowID
	p, err := converter.GetDefaultDataConverter().ToPayloads(st)
	return &client.QueryWorkflowWithOptionsResponse{QueryResult: client.NewValue(p)}, err
}

func serve(t *testing.T, token string, tokenErr error) (*httptest.Server, *http.Client) {
	t.Helper()
	listed := time.Date(2026, 11, 2, 11, 45, 0, 0, time.UTC)
	h := page.New(page.Options{
		Temporal: fake{api.Inventory{Step: api.InventoryDone, Spec: api.InventoryInput{Sink: "billing"}, Status: api.InventoryResult{
			Outcome: api.InventoryIncomplete, Message: "1 difference.", Count: 3, StartedAt: listed,
			Streams: []api.InventoryStream{{Stream: "volume", Listed: 3, Reported: 4, Found: map[api.DifferenceKind]int{api.MissingDelete: 1},
				Repaired: map[api.DifferenceKind]int{api.MissingDelete: 1}}, {Stream: "server", Error: "status 429"}},
			Differences: []api.Difference{{Stream: "volume", Kind: api.MissingDelete, Resource: event.Resource{Type: event.Volume, ID: "7", Name: "<script>data"},
				Action: api.DifferenceRepaired, EventID: "hetzner/acme/volume/7/delete", EventTime: listed.Add(15 * time.Minute), NotBefore: &listed}},
		}}},
		Sources: func() []string { return []string{"cloud", "broken", "fresh"} },
		Token: func(context.Context) (provider.Sensitive, bool, error) {
			return provider.NewSensitive([]byte(token)), token != "", tokenErr
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	mux := http.NewServeMux()
	h.Register(mux)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return srv, &http.Client{Jar: jar}
}

func get(t *testing.T, c *http.Client, url, bearer string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	return read(t, c, req)
}

func read(t *testing.T, c *http.Client, req *http.Request) (int, string) {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b.String()
}

func TestPages(t *testing.T) {
	t.Parallel()
	srv, c := serve(t, "", nil)
	code, body := get(t, c, srv.URL+"/inventory", "")
	for _, want := range []string{"/inventory/sources/cloud", "Incomplete", "No inventory yet.", "cannot be read", "text/html"} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d: the list lacks %q:\n%s", code, want, body)
		}
	}
	if strings.Contains(body, "secret address") {
		t.Error("the page shows an error of the server")
	}
	code, body = get(t, c, srv.URL+"/inventory/sources/cloud", "")
	for _, want := range []string{"missing_delete", "volume/7", "&lt;script&gt;data", "hetzner/acme/volume/7/delete", "between 2026-11-02 11:45:00 and 2026-11-02 12:00:00",
		"status 429", "inventory/cloud-2", "and 2 more"} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d: the report lacks %q:\n%s", code, want, body)
		}
	}
	if code, _ := get(t, c, srv.URL+"/inventory/sources/other", ""); code != http.StatusNotFound {
		t.Errorf("another source: %d", code)
	}
	_, body = get(t, c, srv.URL+"/inventory/reports.json", "")
	var list struct{ Items []page.Entry }
	if err := json.Unmarshal([]byte(body[strings.Index(body, "\r\n\r\n")+4:]), &list); err != nil || len(list.Items) != 3 || list.Items[0].Report.Status.Count != 3 || list.Items[1].Error == "" || list.Items[2].Report != nil {
		t.Errorf("%+v, %v", list, err)
	}
	if code, body := get(t, c, srv.URL+"/inventory/style.css", ""); code != http.StatusOK || !strings.Contains(body, "font:") {
		t.Errorf("style: %d", code)
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	srv, c := serve(t, "hush", nil)
	if code, body := get(t, c, srv.URL+"/inventory/sources/cloud", ""); code != http.StatusOK || !strings.Contains(body, "Sign in") || strings.Contains(body, "missing_delete") {
		t.Errorf("without a token: %d\n%s", code, body)
	}
	if code, _ := get(t, c, srv.URL+"/inventory/reports.json", "wrong"); code != http.StatusUnauthorized {
		t.Errorf("with a wrong token: %d", code)
	}
	if code, _ := get(t, c, srv.URL+"/inventory/reports.json", "hush"); code != http.StatusOK {
		t.Errorf("with the token: %d", code)
	}
	sign := func(token, next string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/inventory/login", strings.NewReader(url.Values{"token": {token}, "next": {next}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return read(t, c, req)
	}
	if code, body := sign("wrong", "/inventory"); code != http.StatusUnauthorized || !strings.Contains(body, "not the right one") {
		t.Errorf("signed in with a wrong token: %d", code)
	}
	if code, body := sign("hush", "https://evil.example/inventory"); code != http.StatusOK || !strings.Contains(body, "No inventory yet.") {
		t.Errorf("signed in: %d\n%s", code, body)
	}
	if code, body := get(t, c, srv.URL+"/inventory/sources/cloud", ""); code != http.StatusOK || !strings.Contains(body, "missing_delete") {
		t.Errorf("after signing in: %d\n%s", code, body)
	}
	if code, _ := get(t, c, srv.URL+"/inventory/reports.json", ""); code != http.StatusOK {
		t.Errorf("JSON after signing in: %d", code)
	}
	srv, c = serve(t, "hush", errors.New("no such file"))
	if code, _ := get(t, c, srv.URL+"/inventory", "hush"); code != http.StatusServiceUnavailable {
		t.Errorf("a token that cannot be read: %d", code)
	}
}
