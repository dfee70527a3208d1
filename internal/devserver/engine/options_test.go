package main

import (
	"errors"
	"flag"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/dynamicconfig"
)

func TestArgumentsOfTheSDKsDevServer(t *testing.T) {
	t.Parallel()
	o, err := parseArgs([]string{
		"server", "start-dev", "--ip", "localhost", "--port", "7000", "--namespace", "mine",
		"--dynamic-config-value", "frontend.enableServerVersionCheck=false",
		"--log-level", "error", "--log-format", "pretty", "--headless", "--db-filename", "x.db",
		"--search-attribute", "Colour=Keyword", "--search-attribute", "Size=Int",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.ip != "127.0.0.1" || o.port != 7000 || o.uiPort != 0 || o.dbFile != "x.db" {
		t.Errorf("got %+v", o)
	}
	if want := []string{"default", "mine"}; !slices.Equal(o.namespaces, want) {
		t.Errorf("namespaces %v, want %v", o.namespaces, want)
	}
	want := map[string]enumspb.IndexedValueType{"Colour": enumspb.INDEXED_VALUE_TYPE_KEYWORD, "Size": enumspb.INDEXED_VALUE_TYPE_INT}
	if !maps.Equal(o.searchAttributes, want) {
		t.Errorf("search attributes %v, want %v", o.searchAttributes, want)
	}
}

func TestUIPort(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{
		"":                             8233,
		"--port 7000":                  8000,
		"--port 7000 --ui-port 9000":   9000,
		"--headless":                   0,
		"--headless --ui-port 9000":    0,
		"server start-dev --port 7001": 8001,
	} {
		o, err := parseArgs(strings.Fields(args), io.Discard)
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if o.uiPort != want {
			t.Errorf("%q: UI port %d, want %d", args, o.uiPort, want)
		}
	}
}

// The names are strings and the types matter: the server ignores a setting it
// does not know and an integer that is a float.
func TestFastDefaults(t *testing.T) {
	t.Parallel()
	o, err := parseArgs(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"history.transferProcessorMaxPollRPS":    5000,
		"history.timerProcessorMaxPollRPS":       5000,
		"history.visibilityProcessorMaxPollRPS":  5000,
		"history.outboundProcessorMaxPollRPS":    5000,
		"history.timerProcessorMaxTimeShift":     time.Millisecond,
		"history.workflowIdReuseMinimalInterval": time.Duration(0),
		"history.defaultWorkflowTaskTimeout":     5 * time.Second,
		"frontend.enableServerVersionCheck":      false,
	}
	for key, value := range want {
		if got := o.dynamicConfig[dynamicconfig.MakeKey(key)]; !reflect.DeepEqual(got, value) {
			t.Errorf("%s is %v (%T), want %v", key, got, got, value)
		}
	}
	if want := map[string]string{"journal_mode": "wal", "synchronous": "normal"}; !maps.Equal(o.pragmas, want) {
		t.Errorf("pragmas %v, want %v", o.pragmas, want)
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	o, err := parseArgs([]string{
		"--dynamic-config-value", "history.timerProcessorMaxPollRPS=7",
		"--dynamic-config-value", "some.fraction=0.5",
		"--dynamic-config-value", `some.duration="3s"`,
		"--sqlite-pragma", "Synchronous=full", "--sqlite-pragma", "cache_size=-2000",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]any{"history.timerProcessorMaxPollRPS": 7, "some.fraction": 0.5, "some.duration": "3s"} {
		if got := o.dynamicConfig[dynamicconfig.MakeKey(key)]; !reflect.DeepEqual(got, value) {
			t.Errorf("%s is %v (%T), want %v (%T)", key, got, got, value, value)
		}
	}
	if want := map[string]string{"journal_mode": "wal", "synchronous": "full", "cache_size": "-2000"}; !maps.Equal(o.pragmas, want) {
		t.Errorf("pragmas %v, want %v", o.pragmas, want)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--port 0":                        "--port 0: want 1 to 65535",
		"--port 70000":                    "--port 70000: want 1 to 65535",
		"--ui-port -1":                    "--ui-port -1: want 0 to 65535",
		"--port 7000 --metrics-port 7000": "--metrics-port 7000: already used by --port",
		"--port 65000":                    "--ui-port 66000: want 0 to 65535",
		"--ip 0.0.0.0":                    `--ip "0.0.0.0": want a loopback address`,
		"--ui-ip 10.0.0.1":                `--ui-ip "10.0.0.1": want a loopback address`,
		"--ip example.org":                `--ip "example.org": want a loopback address`,
		"--search-attribute Colour":       `--search-attribute "Colour": want Name=Type`,
		"--search-attribute Colour=Paint": `type "Paint": want Keyword`,
		"--search-attribute A=Int":        "",
		"--search-attribute A=Int --search-attribute A=Bool": "already given as Int",
		"--sqlite-pragma wal":                                `--sqlite-pragma "wal": want name=value`,
		"--dynamic-config-value a":                           `--dynamic-config-value "a": want key=JSON`,
		"--dynamic-config-value a=b":                         "value is not JSON",
		"--retention 5m":                                     "--retention 5m0s: want 1h or more",
		"--log-level loud":                                   `--log-level "loud": want one of debug`,
		"--log-format xml":                                   `--log-format "xml": want one of text`,
		"--ui-codec-endpoint localhost:7280":                 "want an http or https URL",
		"--ui-codec-endpoint http://x/codec":                 "",
		"start":                                              `unexpected argument "start"`,
		"--no-such-flag":                                     "flag provided but not defined",
	} {
		_, err := parseArgs(strings.Fields(args), io.Discard)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", args, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got error %v, want one with %q", args, err, want)
		}
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if _, err := parseArgs([]string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got error %v", err)
	}
	for _, want := range []string{"-db-filename", "-exit-with-stdin", "-ui-codec-endpoint"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %s", want)
		}
	}
}

func TestEndWithInput(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	ctx := endWithInput(t.Context(), r)
	if _, err := w.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	if err := ctx.Err(); err != nil {
		t.Errorf("ended while the input was open: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}
