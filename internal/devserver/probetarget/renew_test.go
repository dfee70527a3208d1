package probetarget

import (
	"testing"
	"time"
)

func TestCAIsRenewedInTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	first, err := ensureCA(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		after time.Duration
		same  bool
	}{
		{"young", caLife / 2, true},
		{"just enough left", caLife - caReserve - 2*skew, true},
		{"too little left", caLife - caReserve + time.Minute, false},
	} {
		ca, err := ensureCA(dir, now.Add(c.after))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := ca.cert.Equal(first.cert); got != c.same {
			t.Errorf("%s: same CA %v, want %v", c.name, got, c.same)
		}
	}
}
