package wire

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

func named(name string) event.Event {
	return event.New(event.VolumeCreate, time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), event.Data{Platform: event.Hetzner, Account: "acme",
		Resource: event.Resource{Type: event.Volume, ID: "1", Name: name}, Change: event.ChangeCreate})
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event event.Event
		err   error
		want  sink.Outcome
	}{
		"409":                   {named("a"), &fault.Error{Status: 409, Err: errors.New("conflict")}, sink.Duplicate},
		"400 in words":          {named("a"), &fault.Error{Status: 400, Err: errors.New(`{"code":"EVENT_ALREADY_EXISTS"}`)}, sink.Duplicate},
		"422 in words":          {named("a"), &fault.Error{Status: 422, Err: errors.New("Duplicate idempotency key")}, sink.Duplicate},
		"400":                   {named("a"), &fault.Error{Status: 400, Err: errors.New("no such meter")}, sink.Rejected},
		"413":                   {named("a"), &fault.Error{Status: 413, Err: errors.New("duplicate")}, sink.Rejected},
		"words of the event":    {named("duplicate-of-x"), &fault.Error{Status: 400, Err: errors.New(`bad name "duplicate-of-x"`)}, sink.Rejected},
		"a type of problem":     {named("a"), &fault.Error{Status: 400, Kind: "urn:tollgate:problem:conflict", Err: errors.New("x")}, sink.Duplicate},
		"another type":          {named("a"), &fault.Error{Status: 422, Kind: "urn:tollgate:problem:rejected-event", Err: errors.New("duplicate")}, sink.Rejected},
		"503":                   {named("a"), &fault.Error{Status: 503, Err: errors.New("x")}, sink.Unknown},
		"401":                   {named("a"), &fault.Error{Status: 401, Err: errors.New("x")}, sink.Unknown},
		"404":                   {named("a"), &fault.Error{Status: 404, Err: errors.New("x")}, sink.Unknown},
		"an error of no status": {named("a"), errors.New("duplicate"), sink.Unknown},
	} {
		r, err := Judge(c.event, fmt.Errorf("wrapped: %w", c.err))
		if r.Outcome != c.want || (err != nil) != (c.want == sink.Unknown) || (r.Reason != "") != (c.want == sink.Rejected) || r.ID != c.event.ID {
			t.Errorf("%s: %+v, %v, want %q", name, r, err, c.want)
		}
	}
}

func TestChunksKeepToCountAndSize(t *testing.T) {
	t.Parallel()
	var events []event.Event
	for range 10 {
		events = append(events, named("a"))
	}
	for _, c := range []struct {
		n, size int
		want    string
	}{{4, 1 << 20, "[0 4][4 8][8 10]"}, {100, 1 << 20, "[0 10]"}, {100, 1, "[0 1][1 2][2 3][3 4][4 5][5 6][6 7][7 8][8 9][9 10]"}} {
		got := ""
		for from, to := range Chunks(events, c.n, c.size) {
			got += fmt.Sprint([]int{from, to})
		}
		if got != c.want {
			t.Errorf("%d events, %d bytes: %s, want %s", c.n, c.size, got, c.want)
		}
	}
}
