package kubernetessim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Client is an administrator's way to an API server, simulated or real, past
// whatever stands before it. It is safe for concurrent use.
type Client struct {
	// URL is the server's, without a path.
	URL string
	// Token is shown if it is not empty.
	Token string
	// HTTP makes the requests; http.DefaultClient if nil.
	HTTP *http.Client
}

// StatusError is an answer that is no success.
type StatusError struct {
	Code   int
	Status metav1.Status
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Status.Message) }

// Do makes one request. in and out are JSON and may be nil.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

func (c *Client) open(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	r.Header.Set("Accept", "application/json")
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	hc := c.HTTP
	if hc == nil {
		hc = http.DefaultClient
	}
	resp, err := hc.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		defer resp.Body.Close()
		e := &StatusError{Code: resp.StatusCode}
		_ = json.NewDecoder(resp.Body).Decode(&e.Status) // whatever there is of it
		return nil, e
	}
	return resp, nil
}
