package provider_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
)

func TestProfileValidate(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		change func(*provider.Profile)
		want   string // empty when it is valid
	}{
		"valid":                {func(*provider.Profile) {}, ""},
		"no settling":          {func(p *provider.Profile) { p.Settle = 0 }, ""},
		"unanswered":           {func(p *provider.Profile) { p.GCMark = "" }, `profile gc-mark: "": want one of native-labels, written-metadata, mark-window`},
		"unknown answer":       {func(p *provider.Profile) { p.Timeouts = "never" }, `profile timeouts: "never": want one of per-call, ctx-only`},
		"miss in part lists":   {func(p *provider.Profile) { p.NotFound, p.ListPartial = "list-and-miss", "omit-unreachable" }, "reads as gone"},
		"no ready poll":        {func(p *provider.Profile) { p.ReadyPoll = 0 }, "ReadyPoll: 0s: must be positive"},
		"negative gone poll":   {func(p *provider.Profile) { p.GonePoll = -time.Second }, "GonePoll: -1s: must be positive"},
		"negative settle time": {func(p *provider.Profile) { p.Settle = -1 }, "Settle"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := memory.Profile()
			tt.change(&p)
			err := p.Validate()
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v, want it to be valid", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// The table of axes and the struct have the same fields: each string field is
// read by exactly one axis.
func TestAxesCoverTheProfile(t *testing.T) {
	t.Parallel()
	var p provider.Profile
	v := reflect.ValueOf(&p).Elem()
	answers := map[string]string{} // answer -> field
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String {
			name := v.Type().Field(i).Name
			f.SetString("answer to " + name)
			answers["answer to "+name] = name
		}
	}
	for a, got := range p.Axes() {
		field, ok := answers[got]
		if !ok {
			t.Errorf("axis %s reads %q, which is no field's or was read before", a.Code, got)
			continue
		}
		delete(answers, got)
		if code := strings.ReplaceAll(a.Code, "-", ""); !strings.EqualFold(code, field) {
			t.Errorf("axis %s reads the field %s", a.Code, field)
		}
		if a.Question == "" || len(a.Values) < 2 {
			t.Errorf("axis %s has question %q and values %v", a.Code, a.Question, a.Allowed())
		}
		for _, val := range a.Values {
			if val.Value == "" || val.Meaning == "" {
				t.Errorf("axis %s: the value %q means %q", a.Code, val.Value, val.Meaning)
			}
		}
	}
	for _, field := range answers {
		t.Errorf("no axis reads the field %s", field)
	}
}
