package providertest_test

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider/memory/memorytest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// A driver that does everything right passes everything, and every clause is
// run on it.
func TestMemory(t *testing.T) {
	t.Setenv(providertest.RequireEnv, "all")
	providertest.Run(t, memorytest.Harness())
}
