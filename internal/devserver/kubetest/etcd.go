package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// Compact makes etcd forget everything that was before now: a watch from an older
// resourceVersion gets 410 as soon as the API server has to ask etcd for it. API
// servers keep the latest changes themselves; with the argument
// --watch-cache-sizes=shoots.core.gardener.cloud#0, or after a restart, they do not.
func (c *Cluster) Compact(tb testing.TB) {
	tb.Helper()
	var status struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := c.etcd(tb.Context(), "/v3/kv/range", map[string]any{"key": "AA=="}, &status); err != nil {
		tb.Fatal(err)
	}
	if err := c.etcd(tb.Context(), "/v3/kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, nil); err != nil {
		tb.Fatal(err)
	}
}

// etcd calls etcd's JSON API.
func (c *Cluster) etcd(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s", c.ports[0], path), bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("etcd %s: %w", path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd %s: status %d: %s (%w)", path, resp.StatusCode, b, err)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}
