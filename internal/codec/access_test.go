package codec

import (
	"os"
	"testing"
)

func TestAccessRule(t *testing.T) {
	t.Parallel()
	const root, me, other = 0, 1000, 1001
	tests := map[string]struct {
		mode        os.FileMode
		owner, self int
		ok          bool
	}{
		"own file":                               {0o600, me, me, true},
		"own file, read only":                    {0o400, me, me, true},
		"own file, group readable":               {0o640, me, me, false},
		"own file, world readable":               {0o604, me, me, false},
		"mounted secret: root's, group readable": {0o440, root, me, true},
		"root's, group writable":                 {0o460, root, me, false},
		"root's, world readable":                 {0o444, root, me, false},
		"root's own, group readable":             {0o440, root, root, false},
		"another's, group readable":              {0o440, other, me, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := accessRule(tt.mode, tt.owner, tt.self); (err == nil) != tt.ok {
				t.Errorf("accessRule(%o) = %v, want ok=%v", tt.mode, err, tt.ok)
			}
		})
	}
}
