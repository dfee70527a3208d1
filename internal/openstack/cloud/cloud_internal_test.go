package cloud

import "testing"

func TestVersioned(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://c:8774/v2.1":      "https://c:8774/v2.1/",
		"https://c:8774/v2.1/abc/": "https://c:8774/v2.1/abc/",
		"https://c/compute":        "https://c/compute/v9/",
		"https://c":                "https://c/v9/",
		"https://v1.example.com/":  "https://v1.example.com/v9/",
		"https://c/volume/v3/p1":   "https://c/volume/v3/p1/",
	} {
		if got := versioned(in, "v9"); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
