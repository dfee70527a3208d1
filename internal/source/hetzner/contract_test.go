package hetzner_test

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

func harness() sourcetest.Harness {
	return sourcetest.Harness{
		Type:       hetzner.Type(),
		NewBackend: func(tb testing.TB) sourcetest.Backend { return newPlatform(tb) },
		Open: func(tb testing.TB, b sourcetest.Backend, o sourcetest.OpenOptions) source.Source {
			return b.(*platform).open(tb, event.Volume, o, nil)
		},
		Hooks: []sourcetest.Hook{
			sourcetest.HookBegin, sourcetest.HookLose, sourcetest.HookDuring, sourcetest.HookForget, sourcetest.HookFail,
			sourcetest.HookHang, sourcetest.HookSkew, sourcetest.HookPoison, sourcetest.HookList, sourcetest.HookSpoil,
		},
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, harness())
}
