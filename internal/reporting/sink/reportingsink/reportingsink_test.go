package reportingsink_test

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/reportingsink"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/sinktest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, sinktest.Harness{Reply: sinktest.ReplyReporting, New: func(tb testing.TB, o sinktest.Open) sink.Sink {
		c, err := reporting.New(reporting.Options{URL: o.URL, Token: o.Token, Timeout: o.Timeout})
		if err != nil {
			tb.Fatal(err)
		}
		return reportingsink.New(c, 0)
	}})
}
