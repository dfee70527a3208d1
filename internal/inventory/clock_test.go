package inventory

import (
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// What is concluded has the times of the platform's clock, as what the feed shows
// has; how far the feed was read is by ours.
func TestConclusionsHaveThePlatformsTime(t *testing.T) {
	t.Parallel()
	platform := at("12:00").AddDate(0, -8, 0)
	since := platform.Add(-time.Hour).Format("15:04")
	s := newScene(volumeKind)
	s.First.Platform = platform
	gone := res(event.Volume, "1")
	s.report(gone, event.Size{event.SizeGB: event.Int(10)}, since)
	r := s.Look.Reported[KeyOf(account, gone)]
	r.From, r.Since = platform.Add(-time.Hour), platform.Add(-time.Hour)
	s.Look.Reported[KeyOf(account, gone)] = r
	store := NewStore()
	key := StreamKey{Source: "s", Stream: "volume"}
	for i, listed := range [][]source.Existing{{{Account: account, Resource: gone}}, nil} {
		store.Put(Listed{StreamKey: key, Snapshot: source.Snapshot{At: at("11:00").Add(time.Duration(i) * time.Minute),
			PlatformAt: platform.Add(time.Duration(i-10) * time.Minute), Resources: listed}})
	}
	s.LastSeen = store.LastSeen(key)
	e := one(t, s.plan()).Events[0]
	if nb := e.Data.NotBefore; !e.Time.Equal(platform) || nb == nil || !nb.Equal(platform.Add(-10*time.Minute)) {
		t.Errorf("it ended at %s, not before %v; want %s and 10 minutes before", e.Time, nb, platform)
	}
	s.Feed.UpTo = at("11:59") // by our clock, before the first look
	if st := one(t, s.plan()); len(st.Events) > 0 {
		t.Errorf("it did not wait for the feed: %+v", st)
	}
}
