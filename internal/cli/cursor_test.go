package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// withCursors has one cursor in good health and one in trouble.
func withCursors() *fakeTemporal {
	f := newFake()
	at := func(d time.Duration) time.Time { return testNow.Add(-d) }
	good := api.Cursor{APIVersion: api.APIVersion, Kind: api.KindCursor, Metadata: api.Metadata{Name: "hcloud/server"}, Spec: api.CursorConfig{Sink: "billing"},
		Status: api.CursorStatus{Source: "hcloud", Stream: "server", Phase: api.CursorCaughtUp, Since: at(time.Hour), CaughtUpTo: at(time.Minute), ReadAt: at(59 * time.Second),
			Lag: api.Duration(time.Second), LastEventAt: at(time.Hour), Counts: api.CursorCounts{Pages: 7, Delivered: 120, Duplicates: 3, UnknownSizes: 1, Ignored: 40}, Pending: 2}}
	bad := good
	bad.Metadata.Name = "hcloud/volume"
	bad.Status.Stream, bad.Status.Phase, bad.Status.Reason, bad.Status.Message = "volume", api.CursorSinkDown, api.ReasonSinkUnavailable, "connection refused"
	bad.Status.Gaps, bad.Status.GapCount = []source.Gap{{From: at(48 * time.Hour), To: at(40 * time.Hour)}}, 1
	bad.Status.DeadLetters = []api.DeadLetter{{Ref: "action/1001", EventID: "hetzner/acme/volume/7/create", Reason: "unknown account", At: at(2 * time.Hour), Tries: 1}}
	bad.Status.Dropped = &api.DroppedLetters{Count: 4, From: at(72 * time.Hour), To: at(71 * time.Hour)}
	bad.Status.Backfill = &api.BackfillStatus{From: at(72 * time.Hour), To: at(71 * time.Hour), UpTo: at(71*time.Hour + 30*time.Minute), Counts: api.CursorCounts{Delivered: 4}}
	for _, c := range []api.Cursor{good, bad} {
		r := running(workflows.TypeEventCursor, c)
		for _, name := range []string{workflows.UpdatePause, workflows.UpdateResume, workflows.UpdateRewind, workflows.UpdateBackfill} {
			r.updates[name] = func(context.Context, []byte) (any, error) { return c, nil }
		}
		r.updates[workflows.UpdateRedrive] = func(context.Context, []byte) (any, error) {
			return api.RedriveResult{Delivered: 1, Gone: 2, Left: c.Status.DeadLetters}, nil
		}
		f.runs["cursor/"+c.Metadata.Name] = r
	}
	return f
}

func TestCursorOutput(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"cursor-list":       "cursor list",
		"cursor-list-wide":  "cursor list hcloud/volume -o wide",
		"cursor-get":        "cursor get hcloud",
		"cursor-get-yaml":   "cursor get hcloud/server -o yaml",
		"cursor-missing":    "cursor get nobody",
		"cursor-ended":      "cursor get hcloud/gone",
		"cursor-pause":      "cursor pause hcloud",
		"cursor-resume":     "cursor resume hcloud/server",
		"cursor-rewind":     "cursor rewind hcloud/server --to 24h",
		"cursor-backfill":   "cursor backfill hcloud/server --from 2026-01-01 --to 2026-01-02",
		"cursor-redrive":    "cursor redrive hcloud/volume",
		"cursor-no-time":    "cursor rewind hcloud/server --to yesterday",
		"cursor-wrong-way":  "cursor backfill hcloud/server --from 1h --to 2h",
		"cursor-no-to":      "cursor rewind hcloud/server",
		"cursor-no-sink":    "cursor start hcloud/server",
		"cursor-not-a-name": "cursor start hcloud --sink billing",
		"cursor-exists":     "cursor start hcloud/server --sink billing",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newCLI(t, withCursors()).golden(name, strings.Fields(args)...)
		})
	}
}

// What is typed reaches the workflow.
func TestCursorArguments(t *testing.T) {
	t.Parallel()
	f := withCursors()
	got := map[string]string{}
	for _, name := range []string{workflows.UpdateRewind, workflows.UpdateBackfill, workflows.UpdateRedrive} {
		f.runs["cursor/hcloud/server"].updates[name] = func(_ context.Context, arg []byte) (any, error) {
			got[name] = string(arg)
			return api.RedriveResult{}, nil
		}
	}
	c := newCLI(t, f)
	for _, args := range []string{
		"cursor rewind hcloud/server --to 2026-01-01T00:00:00+01:00", "cursor backfill hcloud/server --from 2h --to 1h",
		"cursor redrive hcloud/server --ref action/1 --ref action/2",
		"cursor start hcloud/floating_ip --sink billing --from 2026-01-01 --interval 30s",
	} {
		if r := c.run(strings.Fields(args)...); r.code != ExitOK {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for name, want := range map[string]string{
		workflows.UpdateRewind: `{"to":"2025-12-31T23:00:00Z"}`, workflows.UpdateBackfill: `{"from":"2026-01-02T01:04:05Z","to":"2026-01-02T02:04:05Z"}`,
		workflows.UpdateRedrive: `{"refs":["action/1","action/2"]}`,
	} {
		if got[name] != want {
			t.Errorf("%s got %s, want %s", name, got[name], want)
		}
	}
	var in api.EventCursorInput
	r := f.runs["cursor/hcloud/floating_ip"]
	if r == nil || json.Unmarshal(r.input, &in) != nil || in.Config.Sink != "billing" || in.Config.Interval != api.Duration(30*time.Second) ||
		in.From == nil || !in.From.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || r.kind != workflows.TypeEventCursor {
		t.Errorf("started %+v with %+v", r, in)
	}
}
