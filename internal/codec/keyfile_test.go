package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"

	"github.com/tollgate-dev/tollgate/internal/codec"
)

func TestFirstStartMakesOneKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "codec.json")
	const starters = 16
	var wg sync.WaitGroup
	infos := make([]codec.KeyInfo, starters)
	for i := range starters {
		wg.Go(func() {
			keys, err := codec.OpenOrCreate(path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			infos[i] = keys.Info()
		})
	}
	wg.Wait()
	for _, in := range infos {
		if len(in.IDs) != 1 || in.Current != infos[0].Current {
			t.Errorf("processes have different keys: %+v and %+v", in, infos[0])
		}
	}
	if runtime.GOOS != "windows" {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("mode is %v, %v, want 0600", st.Mode(), err)
		}
	}
	if _, err := codec.Create(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("Create over a file gives %v, want os.ErrExist", err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(left))
	for _, e := range left {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"codec.json", "codec.json.lock"}, names); diff != "" {
		t.Errorf("files left (-want +got):\n%s", diff)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	good := `"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="`
	tests := map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"group readable":    {`{"current":"a","keys":{"a":` + good + `}}`, 0o640, "run chmod 600"},
		"world readable":    {`{"current":"a","keys":{"a":` + good + `}}`, 0o604, "run chmod 600"},
		"group writable":    {`{"current":"a","keys":{"a":` + good + `}}`, 0o620, "run chmod 600"},
		"empty":             {``, 0o600, "EOF"},
		"no JSON":           {`key`, 0o600, "invalid character"},
		"no keys":           {`{"current":"a","keys":{}}`, 0o600, `current: "a" is none of the keys`},
		"no current":        {`{"keys":{"a":` + good + `}}`, 0o600, `current: "" is none of the keys`},
		"unknown field":     {`{"current":"a","keys":{"a":` + good + `},"kyes":{}}`, 0o600, `unknown field "kyes"`},
		"duplicate id":      {`{"current":"a","keys":{"a":` + good + `,"a":` + good + `}}`, 0o600, `id "a" appears twice`},
		"keys as list":      {`{"current":"a","keys":[` + good + `]}`, 0o600, "want an object"},
		"key as number":     {`{"current":"a","keys":{"a":` + `7}}`, 0o600, "keys.a: want a base64 string"},
		"not base64":        {`{"current":"a","keys":{"a":"SECRET%%"}}`, 0o600, "keys.a: not base64"},
		"short key":         {`{"current":"a","keys":{"a":"AQEB"}}`, 0o600, "keys.a: holds 3 bytes, want 32"},
		"bad id":            {`{"current":"a b","keys":{"a b":` + good + `}}`, 0o600, `id "a b" is not allowed`},
		"two documents":     {`{"current":"a","keys":{"a":` + good + `}} {}`, 0o600, "more after the JSON object"},
		"larger than a MiB": {strings.Repeat(" ", 1<<20+1), 0o600, "larger than"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && tt.mode != 0o600 {
				t.Skip("no mode bits here")
			}
			path := filepath.Join(t.TempDir(), "codec.json")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := codec.OpenOrCreate(path, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error is %v, want one with %q and the path", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "AQEB")) {
				t.Errorf("the error shows key material: %v", err)
			}
		})
	}
}

func TestOpenNamesWhatIsNoKeyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := codec.Open(filepath.Join(dir, "absent"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v, want os.ErrNotExist", err)
	}
	if _, err := codec.Open(dir, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: %v", err)
	}
}

// TestRotationWhileRunning follows one running codec through a rotation, as a
// worker and an operator see it.
func TestRotationWhileRunning(t *testing.T) {
	t.Parallel()
	path := keyFile(t)
	running := openCodec(t, path)
	k1 := running.Keys().Info().Current
	sealed1 := encodeOne(t, running, payload("one"))

	k2, err := codec.Rotate(path)
	if err != nil {
		t.Fatal(err)
	}
	// Another process seals with the new key before this one has looked: it opens
	// at once.
	sealed2 := encodeOne(t, openCodec(t, path), payload("two"))
	if got := string(sealed2.Metadata[codec.MetadataKeyID]); got != k2 {
		t.Fatalf("a new process seals with %q, want %q", got, k2)
	}
	if got := string(decodeOne(t, running, sealed2).Data); got != "two" {
		t.Errorf("opened %q, want two", got)
	}
	waitFor(t, "the new key seals", func() bool {
		return string(encodeOne(t, running, payload("x")).Metadata[codec.MetadataKeyID]) == k2
	})
	if got := string(decodeOne(t, running, sealed1).Data); got != "one" {
		t.Errorf("the old key opens %q, want one", got)
	}

	if err := codec.Retire(path, k2); err == nil || !strings.Contains(err.Error(), "is the current one") {
		t.Errorf("retiring the current key: %v", err)
	}
	if err := codec.Retire(path, k1); err != nil {
		t.Fatal(err)
	}
	var unknown *codec.UnknownKeyError
	waitFor(t, "the retired key no longer opens", func() bool {
		_, err := running.Decode([]*commonpb.Payload{sealed1})
		return errors.As(err, &unknown) && unknown.ID == k1
	})
	if got := string(decodeOne(t, running, sealed2).Data); got != "two" {
		t.Errorf("opened %q, want two", got)
	}
}

func TestAddActivateRetire(t *testing.T) {
	t.Parallel()
	path := keyFile(t)
	first := info(t, path).Current
	added, err := codec.Add(path)
	if err != nil {
		t.Fatal(err)
	}
	want := codec.KeyInfo{Current: first, IDs: []string{first, added}}
	slices.Sort(want.IDs)
	if diff := cmp.Diff(want, info(t, path)); diff != "" {
		t.Errorf("after Add (-want +got):\n%s", diff)
	}
	if err := codec.Activate(path, added); err != nil {
		t.Fatal(err)
	}
	if got := info(t, path).Current; got != added {
		t.Errorf("current is %q after Activate, want %q", got, added)
	}
	if err := codec.Retire(path, first); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(codec.KeyInfo{Current: added, IDs: []string{added}}, info(t, path)); diff != "" {
		t.Errorf("after Retire (-want +got):\n%s", diff)
	}
	for name, err := range map[string]error{"Activate": codec.Activate(path, first), "Retire": codec.Retire(path, first)} {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("key %q is not in the file: it holds %s", first, added)) {
			t.Errorf("%s of a retired key: %v", name, err)
		}
	}
}

func TestConcurrentChangesLoseNothing(t *testing.T) {
	t.Parallel()
	path := keyFile(t)
	ids := make([]string, 12)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], err = codec.Rotate(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := info(t, path)
	for _, id := range ids {
		if !slices.Contains(got.IDs, id) {
			t.Errorf("key %q was lost: the file holds %v", id, got.IDs)
		}
	}
	if len(got.IDs) != len(ids)+1 {
		t.Errorf("the file holds %d keys, want %d", len(got.IDs), len(ids)+1)
	}
}

func TestChangeFollowsLinks(t *testing.T) {
	t.Parallel()
	path := keyFile(t)
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	id, err := codec.Rotate(link)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", st, err)
	}
	if got := info(t, path).Current; got != id {
		t.Errorf("current behind the link is %q, want %q", got, id)
	}
}

func TestBrokenChangeKeepsTheKeys(t *testing.T) {
	t.Parallel()
	path := keyFile(t)
	var log syncBuffer
	keys, err := codec.Open(path, slog.New(slog.NewJSONHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	keys.SetCheckEvery(time.Millisecond)
	c := codec.New(keys)
	sealed := encodeOne(t, c, payload("x"))
	for name, breakIt := range map[string]func() error{
		"content": func() error { return os.WriteFile(path, []byte(`{"current":"broken `+sentinel), 0o600) },
		"mode":    func() error { return os.Chmod(path, 0o644) },
		"absence": func() error { return os.Remove(path) },
	} {
		if err := breakIt(); err != nil {
			t.Fatal(err)
		}
		before := log.count("key file unreadable")
		waitFor(t, "the "+name+" is logged", func() bool {
			decodeOne(t, c, sealed)
			return log.count("key file unreadable") > before
		})
		if string(decodeOne(t, c, encodeOne(t, c, payload("y"))).Data) != "y" {
			t.Errorf("%s: the keys in use do not work any more", name)
		}
		writeKeys(t, path, "k1", map[string]byte{"k1": 1})
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the file is read again", func() bool { return c.Keys().Info().Current == "k1" })
		writeKeys(t, path, "k0", map[string]byte{"k0": 0})
		waitFor(t, "the next change is read", func() bool { return c.Keys().Info().Current == "k0" })
		sealed = encodeOne(t, c, payload("x"))
	}
	if strings.Contains(log.String(), sentinel) {
		t.Error("the log shows the file's content")
	}
}

func TestKeysDoNotPrint(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "codec.json")
	writeKeys(t, path, "k1", map[string]byte{"k1": 'S'})
	c := openCodec(t, path)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		out := fmt.Sprintf(verb, c) + fmt.Sprintf(verb, c.Keys())
		if strings.Contains(out, strings.Repeat("S", 32)) || strings.Contains(out, "U1NTU1") || strings.Contains(out, "83, 83") || strings.Contains(out, "0x53, 0x53") || strings.Contains(out, "[83 83") {
			t.Errorf("%s prints the key", verb)
		}
	}
	data, err := json.Marshal(c.Keys().Info())
	if err != nil || string(data) != `{"current":"k1","ids":["k1"]}` {
		t.Errorf("info is %s, %v", data, err)
	}
}

func info(t *testing.T, path string) codec.KeyInfo {
	t.Helper()
	keys, err := codec.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return keys.Info()
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after 20 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// syncBuffer is a buffer that a logger and a test share.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) count(text string) int { return strings.Count(s.String(), text) }
