package openstacksim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Transport puts the faults between a client and a real cloud. A request that
// makes a server is carried out to its end even when the client gives up, and
// later requests of the same transport wait for it: the cloud has taken it, and
// a test must not depend on when it gets round to it.
func (f *Faults) Transport(base http.RoundTripper) http.RoundTripper {
	t := &transport{}
	t.handler = f.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { forward(w, r, base) }))
	return t
}

type transport struct {
	handler http.Handler
	making  sync.WaitGroup
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	type result struct {
		resp *http.Response
		err  error
	}
	done := make(chan result, 1)
	if creating(r) {
		t.making.Add(1)
	}
	go func() {
		if creating(r) {
			defer t.making.Done()
		} else {
			t.making.Wait()
		}
		resp, err := t.serve(r)
		done <- result{resp, err}
	}()
	select {
	case x := <-done:
		return x.resp, x.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

var errBroken = errors.New("connection broken by the test")

func (t *transport) serve(r *http.Request) (resp *http.Response, err error) {
	rec := httptest.NewRecorder()
	broken := false
	func() {
		defer func() {
			switch x := recover(); x {
			case nil:
			case http.ErrAbortHandler:
				broken = true
			default:
				panic(x)
			}
		}()
		in := r.Clone(r.Context())
		if in.Body == nil {
			in.Body = http.NoBody
		}
		t.handler.ServeHTTP(rec, in)
	}()
	if broken && rec.Body.Len() == 0 {
		return nil, errBroken
	}
	resp = rec.Result()
	if broken {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(rec.Body.Bytes()), brokenReader{}))
	}
	resp.Request = r
	return resp, nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// forward sends a request on and copies the answer.
func forward(w http.ResponseWriter, r *http.Request, base http.RoundTripper) {
	ctx := r.Context()
	if creating(r) {
		ctx = context.WithoutCancel(ctx)
	}
	out := r.Clone(ctx)
	resp, err := base.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}
