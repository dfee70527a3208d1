//go:build bench

package bench

import (
	"fmt"
	"os"
	"testing"
)

// childEnv holds the role of a process that a benchmark has started from this
// binary.
const childEnv = "TOLLGATE_BENCH_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := child(role, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	summary.print(os.Stdout)
	os.Exit(code)
}
