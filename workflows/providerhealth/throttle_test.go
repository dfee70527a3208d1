package providerhealth

import (
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func TestThrottledProviders(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ok := provider.TargetStatus{Target: "project", Ready: true, Reason: "Reachable"}
	refused := provider.TargetStatus{Target: "project", Reason: provider.ReasonThrottled}
	down := provider.TargetStatus{Target: "other", Reason: "Timeout"}
	free := &provider.ThrottleState{}
	full := &provider.ThrottleState{Throttled: true, Waiting: 2}
	paused := &provider.ThrottleState{Throttled: true, Until: now.Add(time.Minute)}
	was := func(ready bool) api.ProviderHealthStatus {
		return api.ProviderHealthStatus{Checks: 3, Ready: ready, Since: now.Add(-time.Hour), Targets: []provider.TargetStatus{ok}}
	}
	for what, tt := range map[string]struct {
		before    api.ProviderHealthStatus
		targets   []provider.TargetStatus
		throttle  *provider.ThrottleState
		ready     bool
		reason    string
		message   string
		throttled bool
	}{
		"nobody counts":                {was(true), []provider.TargetStatus{ok}, nil, true, api.ReasonAllReady, "", false},
		"room":                         {was(true), []provider.TargetStatus{ok}, free, true, api.ReasonAllReady, "", false},
		"used up, and reachable":       {was(true), []provider.TargetStatus{ok}, full, true, provider.ReasonThrottled, "the account's request budget is used up; 2 wait", true},
		"paused":                       {was(true), []provider.TargetStatus{ok}, paused, true, provider.ReasonThrottled, "until ", true},
		"the check itself was refused": {was(true), []provider.TargetStatus{refused}, full, true, provider.ReasonThrottled, "held back", true},
		"the check met the 429":        {was(true), []provider.TargetStatus{{Target: "project", Reason: provider.ReasonAPIError}}, paused, true, provider.ReasonThrottled, "until ", true},
		"refused, and was down":        {was(false), []provider.TargetStatus{refused}, full, false, provider.ReasonThrottled, "held back", true},
		"refused at the first check":   {api.ProviderHealthStatus{}, []provider.TargetStatus{refused}, full, false, provider.ReasonThrottled, "held back", true},
		"down, too":                    {was(true), []provider.TargetStatus{down}, full, false, api.ReasonTargetsFailed, "other: Timeout; requests are held back", true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := judge(tt.before, activities.CheckProviderResult{Supported: true, Targets: tt.targets, Throttle: tt.throttle}, nil, now)
			if s.Ready != tt.ready || s.Reason != tt.reason || !strings.Contains(s.Message, tt.message) || s.Throttled != tt.throttled {
				t.Errorf("status %+v", s)
			}
			if tt.throttle == full && s.Checks > 1 && s.Ready && (len(s.Targets) != 1 || !s.Targets[0].Ready) {
				t.Errorf("targets %+v of a check that was refused", s.Targets)
			}
			last := s.Conditions[len(s.Conditions)-1]
			if tt.throttled != (last.Type == api.CondThrottled && last.Status == api.True) {
				t.Errorf("conditions %+v", s.Conditions)
			}
		})
	}
}
