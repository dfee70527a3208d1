package memory_test

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/source/memory/memorytest"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, memorytest.Harness())
}

func TestContractOfParts(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, memorytest.DividedHarness())
}
