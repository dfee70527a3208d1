package codec_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/tollgate-dev/tollgate/internal/codec"
)

const sentinel = "SENTINEL-c0ffee-must-stay-secret"

func keyFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "codec.json")
	if _, err := codec.Create(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func openCodec(t testing.TB, path string) *codec.Codec {
	t.Helper()
	keys, err := codec.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return codec.New(keys)
}

// writeKeys writes a key file by hand: each secret is 32 times its byte.
func writeKeys(t testing.TB, path, current string, keys map[string]byte) {
	t.Helper()
	content := map[string]any{"current": current}
	enc := map[string]string{}
	for id, b := range keys {
		enc[id] = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
	}
	content["keys"] = enc
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func payload(data string) *commonpb.Payload {
	return &commonpb.Payload{
		Metadata: map[string][]byte{"encoding": []byte("json/plain"), "messageType": []byte(sentinel)},
		Data:     []byte(data),
	}
}

func encodeOne(t testing.TB, c converter.PayloadCodec, p *commonpb.Payload) *commonpb.Payload {
	t.Helper()
	out, err := c.Encode([]*commonpb.Payload{p})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func decodeOne(t testing.TB, c converter.PayloadCodec, p *commonpb.Payload) *commonpb.Payload {
	t.Helper()
	out, err := c.Decode([]*commonpb.Payload{p})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func TestSealedPayloadOpensAndShowsNothing(t *testing.T) {
	t.Parallel()
	c := openCodec(t, keyFile(t))
	tests := map[string]string{
		"empty":   "",
		"short":   `"x"`,
		"secret":  `{"cloudInit":"` + sentinel + `"}`,
		"2 MB":    strings.Repeat(sentinel, 2<<20/len(sentinel)),
		"binary":  string([]byte{0, 1, 2, 255, 254}),
		"unicode": `"grün"`,
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := payload(data)
			before := proto.Clone(in)
			sealed := encodeOne(t, c, in)
			wire, err := proto.Marshal(sealed)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(wire, []byte(sentinel)) {
				t.Error("the sealed payload shows the secret")
			}
			if got := string(sealed.Metadata["encoding"]); got != codec.Encoding {
				t.Errorf("encoding is %q, want %q", got, codec.Encoding)
			}
			if got, want := string(sealed.Metadata[codec.MetadataKeyID]), c.Keys().Info().Current; got != want {
				t.Errorf("key id is %q, want %q", got, want)
			}
			if over := len(sealed.Data) - proto.Size(in); over > 64 {
				t.Errorf("sealing costs %d bytes, want at most 64", over)
			}
			// Not cmp: its diff of two megabytes takes minutes.
			if !proto.Equal(before, decodeOne(t, c, sealed)) {
				t.Error("the opened payload is another one")
			}
			if !proto.Equal(before, in) {
				t.Error("Encode changed its input")
			}
		})
	}
}

func TestSealingTwiceDiffers(t *testing.T) {
	t.Parallel()
	c := openCodec(t, keyFile(t))
	a, b := encodeOne(t, c, payload("x")), encodeOne(t, c, payload("x"))
	if bytes.Equal(a.Data, b.Data) {
		t.Error("equal payloads have equal ciphertexts")
	}
}

func TestPayloadsOfOthersPassThrough(t *testing.T) {
	t.Parallel()
	c := openCodec(t, keyFile(t))
	in := []*commonpb.Payload{
		{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"typed":"by hand"}`)},
		{Metadata: map[string][]byte{"encoding": []byte("binary/null")}},
		{Data: []byte("no metadata")},
		{},
		nil,
	}
	out, err := c.Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var got struct{ Typed string }
	if err := codec.DataConverter(c).FromPayload(in[0], &got); err != nil || got.Typed != "by hand" {
		t.Errorf("FromPayload of hand-typed JSON = %+v, %v", got, err)
	}
}

func TestEncodeKeepsNilPayloads(t *testing.T) {
	t.Parallel()
	c := openCodec(t, keyFile(t))
	out, err := c.Encode([]*commonpb.Payload{nil, payload("x")})
	if err != nil {
		t.Fatal(err)
	}
	if out[0] != nil || out[1] == nil {
		t.Errorf("got %v, want nil and a payload", out)
	}
}

func TestTamperingIsFound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "codec.json")
	writeKeys(t, path, "k1", map[string]byte{"k1": 1, "k2": 2, "twin-of-k1": 1})
	c := openCodec(t, path)
	sealed := encodeOne(t, c, payload(sentinel))
	tests := map[string]struct {
		change func(p *commonpb.Payload)
		want   error
	}{
		"format":               {func(p *commonpb.Payload) { p.Data[0] = 9 }, nil},
		"salt":                 {func(p *commonpb.Payload) { p.Data[1] ^= 1 }, codec.ErrNotAuthentic},
		"nonce":                {func(p *commonpb.Payload) { p.Data[17] ^= 1 }, codec.ErrNotAuthentic},
		"ciphertext":           {func(p *commonpb.Payload) { p.Data[30] ^= 1 }, codec.ErrNotAuthentic},
		"tag":                  {func(p *commonpb.Payload) { p.Data[len(p.Data)-1] ^= 1 }, codec.ErrNotAuthentic},
		"cut at the end":       {func(p *commonpb.Payload) { p.Data = p.Data[:len(p.Data)-1] }, codec.ErrNotAuthentic},
		"cut to the nonce":     {func(p *commonpb.Payload) { p.Data = p.Data[:20] }, codec.ErrNotAuthentic},
		"cut to the salt":      {func(p *commonpb.Payload) { p.Data = p.Data[:5] }, codec.ErrNotAuthentic},
		"nothing left":         {func(p *commonpb.Payload) { p.Data = nil }, codec.ErrNotAuthentic},
		"longer":               {func(p *commonpb.Payload) { p.Data = append(p.Data, 0) }, codec.ErrNotAuthentic},
		"another key":          {func(p *commonpb.Payload) { p.Metadata[codec.MetadataKeyID] = []byte("k2") }, codec.ErrNotAuthentic},
		"same key, another id": {func(p *commonpb.Payload) { p.Metadata[codec.MetadataKeyID] = []byte("twin-of-k1") }, codec.ErrNotAuthentic},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proto.Clone(sealed).(*commonpb.Payload)
			tt.change(p)
			out, err := c.Decode([]*commonpb.Payload{payload("other"), p})
			if err == nil {
				t.Fatalf("Decode gave %v, want an error", out)
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error is %v, want %v", err, tt.want)
			}
			if strings.Contains(err.Error(), sentinel) {
				t.Errorf("the error shows the payload: %v", err)
			}
			if task := new(converter.WorkflowTaskFailureError); !errors.As(err, &task) {
				t.Errorf("error %v fails the workflow, want it to fail the task", err)
			}
		})
	}
}

func TestUnknownKeyIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old.json"), filepath.Join(dir, "now.json")
	writeKeys(t, old, "k9", map[string]byte{"k9": 9})
	writeKeys(t, now, "k1", map[string]byte{"k1": 1, "k2": 2})
	sealed := encodeOne(t, openCodec(t, old), payload("x"))
	_, err := openCodec(t, now).Decode([]*commonpb.Payload{sealed})
	var unknown *codec.UnknownKeyError
	if !errors.As(err, &unknown) {
		t.Fatalf("error is %v, want an UnknownKeyError", err)
	}
	want := `the payload is encrypted with key "k9", which the key file ` + now + ` does not hold (it holds k1, k2)`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Same id, other key: what two workers with key files of their own produce.
	writeKeys(t, old, "k1", map[string]byte{"k1": 9})
	sealed = encodeOne(t, openCodec(t, old), payload("x"))
	if _, err := openCodec(t, now).Decode([]*commonpb.Payload{sealed}); !errors.Is(err, codec.ErrNotAuthentic) {
		t.Errorf("error is %v, want ErrNotAuthentic", err)
	}
}

func TestFailuresAreSealed(t *testing.T) {
	t.Parallel()
	c := openCodec(t, keyFile(t))
	fc := codec.FailureConverter(c)
	cause := temporal.NewApplicationErrorWithCause("inner "+sentinel, "Transient", errors.New("root "+sentinel), sentinel)
	failure := fc.ErrorToFailure(temporal.NewApplicationErrorWithCause("outer "+sentinel, "Permanent", cause, map[string]string{"detail": sentinel}))
	wire, err := proto.Marshal(failure)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(wire, []byte(sentinel)) {
		t.Errorf("the failure shows the secret: %v", failure)
	}
	if got := failure.GetApplicationFailureInfo().GetType(); got != "Permanent" {
		t.Errorf("type is %q, want it readable", got)
	}
	var app *temporal.ApplicationError
	if err := fc.FailureToError(failure); !errors.As(err, &app) || app.Message() != "outer "+sentinel {
		t.Errorf("decoded failure is %v", err)
	}
	var detail map[string]string
	if err := app.Details(&detail); err != nil || detail["detail"] != sentinel {
		t.Errorf("details are %v, %v", detail, err)
	}
}

func TestWithoutCodecNothingIsSealed(t *testing.T) {
	t.Parallel()
	p, err := codec.DataConverter(nil).ToPayload("clear")
	if err != nil || string(p.Data) != `"clear"` {
		t.Errorf("payload is %v, %v", p, err)
	}
	f := codec.FailureConverter(nil).ErrorToFailure(errors.New("clear"))
	if f.Message != "clear" {
		t.Errorf("message is %q, want it clear", f.Message)
	}
}

func FuzzDecode(f *testing.F) {
	path := filepath.Join(f.TempDir(), "codec.json")
	writeKeys(f, path, "k1", map[string]byte{"k1": 1})
	c := openCodec(f, path)
	sealed := encodeOne(f, c, payload("seed"))
	f.Add("k1", sealed.Data)
	f.Add("k1", sealed.Data[:20])
	f.Add("", []byte{1})
	f.Add("k2", bytes.Repeat([]byte{1}, 100))
	f.Fuzz(func(t *testing.T, id string, data []byte) {
		p := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(codec.Encoding), codec.MetadataKeyID: []byte(id)}, Data: data}
		out, err := c.Decode([]*commonpb.Payload{p})
		if err == nil && !proto.Equal(out[0], payload("seed")) {
			t.Errorf("Decode opened what nobody sealed: %v", out)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	c := openCodec(f, keyFile(f))
	f.Add("encoding", []byte("json/plain"), []byte(`{"a":1}`))
	f.Add("", []byte{}, []byte(nil))
	f.Fuzz(func(t *testing.T, name string, value, data []byte) {
		in := &commonpb.Payload{Metadata: map[string][]byte{strings.ToValidUTF8(name, "?"): value}, Data: data}
		got := decodeOne(t, c, encodeOne(t, c, in))
		if !proto.Equal(in, got) {
			t.Errorf("got %v, want %v", got, in)
		}
	})
}
