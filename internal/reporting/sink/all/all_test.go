package all_test

import (
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/reporting/sink/all"
)

func TestEveryTypeIsBuilt(t *testing.T) {
	t.Parallel()
	for _, typ := range all.Types() {
		if s, err := all.New(all.Config{Type: typ, URL: "http://127.0.0.1:7270"}); err != nil || s == nil {
			t.Errorf("%s: %v", typ, err)
		}
		if s, err := all.New(all.Config{Type: typ, URL: "nowhere"}); err == nil || s != nil {
			t.Errorf("%s with a bad URL: %v, %v", typ, s, err)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config all.Config
		want   string
	}{
		{all.Config{Type: "kafka"}, `sink: type: "kafka" is not a type of sink: want one of cloudevents, reporting`},
		{all.Config{Type: "reporting", URL: "http://x", Mode: "batched"}, `sink reporting: mode: "batched" is set`},
		{all.Config{Type: "cloudevents", URL: "http://x", Mode: "binary"}, `sink cloudevents: mode: "binary" is unknown`},
	} {
		if _, err := all.New(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
