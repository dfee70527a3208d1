//go:build bench

package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// target is what a number should be; the zero value is a number without one.
// Missing it fails nothing: a machine that others use as well can be slow.
type target struct {
	sign  string // "<=", ">=" or ""
	limit float64
}

func atMost(limit float64) target  { return target{"<=", limit} }
func atLeast(limit float64) target { return target{">=", limit} }

var info target

func (t target) met(v float64) bool {
	switch t.sign {
	case "<=":
		return v <= t.limit
	case ">=":
		return v >= t.limit
	}
	return true
}

// row is one number of the summary.
type row struct {
	topic, what, unit string
	value             float64
	target            target
}

// report collects the numbers of all benchmarks.
type report struct {
	mu   sync.Mutex
	rows []row
}

var summary report

// add records a number as a metric of b and in the summary. name is the metric's
// unit, so it has no white space.
func (r *report) add(b *testing.B, name, what string, value float64, unit string, t target) {
	b.Helper()
	b.ReportMetric(value, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	topic := strings.TrimPrefix(b.Name(), "Benchmark")
	// A benchmark that is run again with more iterations replaces its numbers.
	for i, have := range r.rows {
		if have.topic == topic && have.what == what {
			r.rows[i].value = value
			return
		}
	}
	r.rows = append(r.rows, row{topic, what, unit, value, t})
}

func (r *report) print(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%d CPUs, %s/%s, %s, load average at the end %s\n\n",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), loadAverage())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	topic := ""
	for _, x := range r.rows {
		if x.topic != topic {
			topic = x.topic
			fmt.Fprintf(t, "%s\t\t\t\n", topic)
		}
		want, verdict := "", ""
		if x.target.sign != "" {
			want, verdict = fmt.Sprintf("%s %s", x.target.sign, number(x.target.limit)), "met"
			if !x.target.met(x.value) {
				verdict = "MISSED"
			}
		}
		fmt.Fprintf(t, "  %s\t%s %s\t%s\t%s\n", x.what, number(x.value), x.unit, want, verdict)
	}
	_ = t.Flush() // to the same place as the lines before
	fmt.Fprintln(w)
}

// number shows three digits, and all of those before the point.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(b))
	if err != nil || len(fields) == 0 {
		return "unknown"
	}
	return fields[0]
}
