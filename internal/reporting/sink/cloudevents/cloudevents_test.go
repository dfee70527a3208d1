package cloudevents_test

import (
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/cloudevents"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/sinktest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	for _, mode := range []cloudevents.Mode{cloudevents.Structured, cloudevents.Batched} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, sinktest.Harness{Reply: sinktest.ReplyStatus, New: func(tb testing.TB, o sinktest.Open) sink.Sink {
				s, err := cloudevents.New(cloudevents.Options{URL: o.URL, Token: o.Token, Timeout: o.Timeout, Mode: mode})
				if err != nil {
					tb.Fatal(err)
				}
				return s
			}})
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, mode, want string }{
		{"", "", `url: ""`}, {"ftp://x", "", `url: "ftp://x"`}, {"http://user:pw@x", "", `url: "http://user:xxxxx@x"`},
		{"http://x y:pw@z", "", "url: is not a URL"}, {"http://x", "binary", `mode: "binary" is unknown`},
	} {
		_, err := cloudevents.New(cloudevents.Options{URL: c.url, Mode: cloudevents.Mode(c.mode)})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q %q: %v, want %s", c.url, c.mode, err, c.want)
		}
	}
}
