package reportingserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver/store"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

// Limits of a delivery.
const (
	MaxBatch     = 1000
	MaxBodyBytes = 16 << 20
)

// Media types of a delivery.
const (
	typeEvent = "application/cloudevents+json"
	typeBatch = "application/cloudevents-batch+json"
)

type duplicateStatus struct{}

func withDuplicateStatus(ctx context.Context, status int) context.Context {
	return context.WithValue(ctx, duplicateStatus{}, status)
}

// PostEvents takes a delivery.
func (s *Server) PostEvents(w http.ResponseWriter, r *http.Request) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != typeEvent && media != typeBatch {
		problem{api.UrnTollgateProblemUnsupportedMediaType, http.StatusUnsupportedMediaType, "Unsupported media type",
			"the header Content-Type is not " + typeEvent + " or " + typeBatch}.write(w)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if err != nil {
		s.fail(w, r, readError(err))
		return
	}
	raw := []json.RawMessage{body}
	if media == typeBatch {
		if err := decode(body, &raw); err != nil {
			s.fail(w, r, invalid("the body is not an array of events: %v", err))
			return
		}
		if len(raw) > MaxBatch {
			s.fail(w, r, tooLarge("the batch has %d events: at most %d are allowed", len(raw), MaxBatch))
			return
		}
	}
	results, err := s.ingest(r.Context(), raw)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	for _, res := range results {
		s.metrics.events.WithLabelValues(string(res.Outcome)).Inc()
	}
	if media == typeEvent && results[0].Outcome == sink.Rejected {
		problem{api.UrnTollgateProblemRejectedEvent, http.StatusUnprocessableEntity, "Rejected event", results[0].Reason}.write(w)
		return
	}
	if status, ok := r.Context().Value(duplicateStatus{}).(int); ok && allDuplicates(results) {
		problem{api.UrnTollgateProblemConflict, status, "Duplicate", "every event is stored already"}.write(w)
		return
	}
	answer(w, http.StatusOK, api.EventResults{Results: results})
}

func allDuplicates(results []api.EventResult) bool {
	for _, r := range results {
		if r.Outcome != sink.Duplicate {
			return false
		}
	}
	return len(results) > 0
}

// ingest stores what is valid and has a result for each event, in order.
func (s *Server) ingest(ctx context.Context, raw []json.RawMessage) ([]api.EventResult, error) {
	results := make([]api.EventResult, len(raw))
	var events []event.Event
	var places []int
	for i, b := range raw {
		e, err := event.Decode(b)
		if err == nil {
			err = e.Validate()
		}
		if err != nil {
			results[i] = api.EventResult{ID: idOf(b), Outcome: sink.Rejected, Reason: sink.Reason(err.Error())}
			continue
		}
		results[i].ID = e.ID
		events, places = append(events, e), append(places, i)
	}
	if len(events) == 0 {
		return results, nil
	}
	outcomes, err := s.store.Ingest(ctx, events)
	if err != nil {
		return nil, err
	}
	for i, o := range outcomes {
		results[places[i]].Outcome = o
	}
	s.arrived()
	return results, nil
}

// idOf finds the id of an event that cannot be read otherwise.
func idOf(b []byte) string {
	var e struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(b, &e) != nil || len(e.ID) > event.MaxBytes/64 {
		return ""
	}
	return e.ID
}

func readError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return tooLarge("the body has more than %d bytes", large.Limit)
	}
	return invalid("the body cannot be read: %v", err)
}

// decode reads exactly one JSON value.
func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON value")
	}
	return nil
}

// ListEvents lists events.
func (s *Server) ListEvents(w http.ResponseWriter, r *http.Request, p api.ListEventsParams) {
	limit, err := limitOf(p.Limit)
	f := store.EventFilter{ProjectID: text(p.ProjectID), ResourceType: text(p.ResourceType), ResourceID: text(p.ResourceID),
		Type: text(p.Type), ID: text(p.ID), From: p.From, To: p.To, Limit: limit + 1}
	err = errors.Join(err, inRange("from", p.From), inRange("to", p.To), readToken(p.PageToken, &f.After))
	if err != nil {
		s.fail(w, r, invalid("%v", err))
		return
	}
	events, err := s.store.Events(r.Context(), f)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := api.EventList{Items: []api.StoredEvent{}}
	for i, e := range events {
		if i == limit {
			out.NextPageToken = newToken(events[i-1].Seq)
			break
		}
		out.Items = append(out.Items, e.StoredEvent)
	}
	answer(w, http.StatusOK, out)
}
