package provider_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	cause := errors.New("boom")
	for what, tt := range map[string]struct {
		err  error
		want provider.Class
	}{
		"as classed":   {cause, provider.Permanent},
		"cancelled":    {fmt.Errorf("call: %w", context.Canceled), provider.Transient},
		"out of time":  {fmt.Errorf("call: %w", context.DeadlineExceeded), provider.Transient},
		"no failure":   {nil, ""},
		"joined cause": {errors.Join(errors.New("a"), cause), provider.Permanent},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			err := provider.Wrap(provider.Permanent, provider.OpGet, "north", "i-1", tt.err)
			if got := provider.ClassOf(err); got != tt.want {
				t.Errorf("class %q, want %q", got, tt.want)
			}
			if err != nil && (!errors.Is(err, tt.want) || !errors.Is(err, tt.err)) {
				t.Errorf("%v matches neither its class nor its cause", err)
			}
		})
	}
	err := provider.WithReason(provider.WithRetryAfter(
		provider.Wrap(provider.RateLimited, provider.OpList, "north", "", cause), time.Minute), "Busy")
	if provider.ReasonOf(err) != "Busy" || provider.RetryAfterOf(err) != time.Minute || err.Error() != "north: list: RateLimited: boom" {
		t.Errorf("got %v, reason %q, retry after %v", err, provider.ReasonOf(err), provider.RetryAfterOf(err))
	}
	if got := provider.ClassOf(cause); got != provider.Transient {
		t.Errorf("an error that nobody classed is %s, want Transient", got)
	}
}

// Each class has one row, and the row says something.
func TestClassRules(t *testing.T) {
	t.Parallel()
	var classes []provider.Class
	for _, r := range provider.ClassRules() {
		classes = append(classes, r.Class)
		if r.Meaning == "" || r.Proxy == "" || provider.RuleFor(r.Class) != r {
			t.Errorf("row of %s: %+v", r.Class, r)
		}
	}
	if diff := cmp.Diff(classes, provider.Classes()); diff != "" {
		t.Errorf("rows (-got +want):\n%s", diff)
	}
	if provider.RuleFor("nonsense") != provider.RuleFor(provider.Transient) {
		t.Error("an unknown class is not treated as Transient")
	}
}

func TestInstanceName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, uid := range []string{"0199", "b6e1c1f0-4a4f-7c5e-9d39-000000000000", "x"} {
		for n := range 50 {
			name := provider.InstanceName(uid, n)
			if len(name) != 22 || provider.ValidateName("name", name) != nil || seen[name] || name != provider.InstanceName(uid, n) {
				t.Errorf("InstanceName(%q, %d) = %q: want 22 characters, a label, the same each time and no other's", uid, n, name)
			}
			seen[name] = true
		}
	}
	// A uid and an incarnation never run together.
	if provider.InstanceName("a/1", 1) == provider.InstanceName("a", 11) {
		t.Error("two owners share a name")
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	m := provider.Marks{UID: "u", Installation: "i", Namespace: "n", Proxy: "p", SpecHash: "s"}
	got, managed := provider.MarksFromLabels(m.Labels())
	if got != m || !managed {
		t.Errorf("read back %+v, managed %v", got, managed)
	}
	if _, managed := provider.MarksFromLabels(map[string]string{provider.LabelUID: "u"}); managed {
		t.Error("labels without the managed mark are managed")
	}
	if l := (provider.Marks{UID: "u"}).Labels(); len(l) != 2 {
		t.Errorf("empty fields are written: %v", l)
	}
	for what, tt := range map[string]struct {
		o    provider.Marks
		want bool
	}{
		"same":               {m, true},
		"another spec":       {provider.Marks{UID: "u", Installation: "i", SpecHash: "t"}, true},
		"another uid":        {provider.Marks{UID: "v", Installation: "i"}, false},
		"other installation": {provider.Marks{UID: "u", Installation: "j"}, false},
		"no marks":           {provider.Marks{}, false},
	} {
		if got := m.SameOwner(tt.o); got != tt.want {
			t.Errorf("%s: SameOwner %v, want %v", what, got, tt.want)
		}
	}
	if (provider.Marks{}).SameOwner(provider.Marks{}) {
		t.Error("two instances without marks have the same owner")
	}
	if err := provider.VerifyAdoption("north", provider.CreateRequest{Name: "x", Marks: m}, provider.Instance{Marks: m}); err != nil {
		t.Errorf("our own instance: %v", err)
	}
	other := m
	other.SpecHash = "t"
	err := provider.VerifyAdoption("north", provider.CreateRequest{Name: "x", Marks: m}, provider.Instance{Marks: other})
	if provider.ClassOf(err) != provider.Conflict || !strings.Contains(fmt.Sprint(err), `for spec "t", not "s"`) {
		t.Errorf("another spec's instance: %v", err)
	}
}

// Selecting by each field matches what has it and nothing else.
func TestSelector(t *testing.T) {
	t.Parallel()
	m := provider.Marks{UID: "u", Installation: "i", Namespace: "n", Proxy: "p"}
	for _, sel := range []provider.Selector{{}, {UID: "u"}, {Installation: "i"}, {Namespace: "n"}, {Proxy: "p"}, {UID: "u", Installation: "i", Namespace: "n", Proxy: "p"}} {
		if !sel.Matches(m) {
			t.Errorf("%+v does not match %+v", sel, m)
		}
	}
	for _, sel := range []provider.Selector{{UID: "x"}, {Installation: "x"}, {Namespace: "x"}, {Proxy: "x"}, {UID: "u", Proxy: "x"}} {
		if sel.Matches(m) {
			t.Errorf("%+v matches %+v", sel, m)
		}
	}
}

func TestSensitive(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	s := provider.NewSensitive([]byte(secret))
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s, "group", map[string]any{"in": s})
	printed := fmt.Sprintf("%v %+v %#v %s %q %x %v", s, s, s, s, s, struct{ S provider.Sensitive }{s}, &s)
	if strings.Contains(printed+log.String(), secret) || strings.Contains(printed, fmt.Sprintf("%x", secret)) {
		t.Errorf("shown: %s %s", printed, log.String())
	}
	if _, err := json.Marshal(struct{ S provider.Sensitive }{s}); err == nil {
		t.Error("it can be encoded")
	}
	if string(s.Reveal()) != secret || s.Len() != len(secret) {
		t.Error("the bytes are not what was put in")
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	token := provider.NewSensitive([]byte("tok/en+sentinel\n"))
	script := provider.NewSensitive([]byte("#cloud-config\npassword: swordfish\nabc: 1\n"))
	tiny := provider.NewSensitive([]byte("abc"))
	b64 := base64.StdEncoding.EncodeToString
	for what, tt := range map[string]struct{ text, want string }{
		"nothing":            {"region abc is unknown", "region abc is unknown"},
		"plain":              {"token tok/en+sentinel is bad", "token [redacted] is bad"},
		"in a URL":           {"GET /?t=tok%2Fen%2Bsentinel", "GET /?t=[redacted]"},
		"base64":             {"got " + b64([]byte("tok/en+sentinel")), "got [redacted]"},
		"quoted":             {fmt.Sprintf("body %q", script.Reveal()), `body "[redacted]"`},
		"base64 of the body": {"user_data " + b64(script.Reveal()), "user_data [redacted]"},
		"one line":           {"line 2: password: swordfish: not allowed", "line 2: [redacted]: not allowed"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if got := provider.RedactText(tt.text, token, script, tiny, provider.Sensitive{}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	cause := fmt.Errorf("token tok/en+sentinel: %w", context.Canceled)
	got := provider.RedactError(cause, token)
	if got.Error() != "token [redacted]: context canceled" || errors.Unwrap(got) != nil || !errors.Is(got, context.Canceled) {
		t.Errorf("got %v, unwraps to %v", got, errors.Unwrap(got))
	}
	if clean := errors.New("x"); provider.RedactError(clean, token) != clean || provider.RedactError(nil, token) != nil {
		t.Error("a clean error was replaced")
	}
}

// An unknown state is Provisioning, said once, whoever asks.
func TestStateMap(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	m := provider.NewStateMap(slog.New(slog.NewTextHandler(&log, nil)), map[string]provider.State{"off": provider.StateStopped})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if s := m.Map(t.Context(), "off", "i"); s != provider.StateStopped {
				t.Errorf("off is %s", s)
			}
			if s := m.Map(t.Context(), []string{"warping", "beaming"}[i%2], "i"); s != provider.StateProvisioning {
				t.Errorf("an unknown state is %s", s)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(m.UnknownStates(), []string{"beaming", "warping"}); diff != "" {
		t.Errorf("unknown states (-got +want):\n%s", diff)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings, want one for each unknown state:\n%s", n, log.String())
	}
}

func TestReapOlderThan(t *testing.T) {
	t.Parallel()
	b := memory.NewBackend(memory.Options{})
	p, err := memory.New(t.Context(), b, provider.Config{Name: "north", Installation: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	for i, inst := range []string{"acme", "acme", "other"} {
		b.Place(memory.NewServer{Name: fmt.Sprintf("s%d", i), Labels: provider.Marks{UID: "u", Installation: inst}.Labels()})
	}
	later := time.Now().Add(2 * time.Hour)
	sel := provider.Selector{Installation: "acme"}
	names := func(in []provider.Instance) (out []string) {
		for _, i := range in {
			out = append(out, i.Name)
		}
		return out
	}
	if young, err := provider.ReapOlderThan(t.Context(), p, sel, 3*time.Hour, later, false); err != nil || len(young) != 0 {
		t.Errorf("reaped the young %v, %v", names(young), err)
	}
	would, err := provider.ReapOlderThan(t.Context(), p, sel, time.Hour, later, true)
	if diff := cmp.Diff(names(would), []string{"s0", "s1"}); diff != "" || err != nil || len(b.Servers()) != 3 {
		t.Errorf("a dry run: %v, %d left, -got +want:\n%s", err, len(b.Servers()), diff)
	}
	heal := b.Inject(memory.Fault{Calls: []memory.Call{memory.CallDeleteServer}, Err: &memory.APIError{Status: 500}, Times: 1})
	got, err := provider.ReapOlderThan(t.Context(), p, sel, time.Hour, later, false)
	if diff := cmp.Diff(names(got), []string{"s1"}); diff != "" || provider.ClassOf(err) != provider.Transient {
		t.Errorf("with one failing delete: %v, -got +want:\n%s", err, diff)
	}
	heal()
	if left := b.Servers(); len(left) != 2 || left[1].Name != "s2" {
		t.Errorf("left %v, want the failed one and the other installation's", left)
	}
}
