package words_test

import (
	"errors"
	"fmt"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/workflows/internal/words"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err         error
		class, text string
	}{
		"application": {temporal.NewApplicationError("sold out", "CapacityUnavailable"), "CapacityUnavailable", "sold out"},
		"no worker":   {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil), "NoWorker", "no worker took it; is the source configured on any?"},
		"timeout":     {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil), "Timeout", "it took too long (StartToClose)"},
		"anything":    {errors.New("odd"), "Unknown", "around: odd"},
	} {
		class, text := words.Explain(fmt.Errorf("around: %w", c.err), "source")
		if class != c.class || text != c.text {
			t.Errorf("%s: %q, %q: want %q, %q", name, class, text, c.class, c.text)
		}
	}
}

func TestPlural(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 orphans", 1: "1 orphan", 2: "2 orphans"} {
		if got := words.Plural(n, "orphan"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
