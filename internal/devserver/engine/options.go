package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/dynamicconfig"
)

const (
	defaultPort      = 7233
	defaultNamespace = "default"
	// uiPortOffset is where the UI is without --ui-port, as with the temporal CLI.
	uiPortOffset = 1000
)

// options are the checked arguments.
type options struct {
	dbFile           string // empty: in memory
	ip               string
	port             int
	httpPort         int // 0: any free one
	uiPort           int // 0: no UI
	metricsPort      int // 0: none
	namespaces       []string
	retention        time.Duration
	searchAttributes map[string]enumspb.IndexedValueType
	pragmas          map[string]string
	dynamicConfig    dynamicconfig.StaticClient
	ui               uiOptions
	logLevel         string
	logFormat        string
	exitWithStdin    bool
}

type uiOptions struct {
	ip               string
	publicPath       string
	assetPath        string
	codecEndpoint    string
	codecCredentials bool
	corsOrigins      []string
}

// repeated is a flag that may be given many times.
type repeated []string

func (r *repeated) String() string     { return strings.Join(*r, ",") }
func (r *repeated) Set(v string) error { *r = append(*r, v); return nil }

// fastPragmas and fastDynamicConfig are the defaults of this engine. Temporal's
// own are made for clusters: queues polled 20 times a second, timers no finer
// than a second, one reuse of a workflow id per second, a lost worker noticed
// after ten. On one machine with a local database they are only slow.
var fastPragmas = map[string]string{
	"journal_mode": "wal",
	// With a write-ahead log, normal survives a killed process; only a power cut
	// can lose the last transactions, never the file's consistency.
	"synchronous": "normal",
}

func fastDynamicConfig() dynamicconfig.StaticClient {
	const pollsPerSecond = 5000
	return dynamicconfig.StaticClient{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():                  pollsPerSecond,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():                     pollsPerSecond,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key():                pollsPerSecond,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key():                  pollsPerSecond,
		dynamicconfig.TimerProcessorMaxTimeShift.Key():                   time.Millisecond,
		dynamicconfig.WorkflowIdReuseMinimalInterval.Key():               time.Duration(0),
		dynamicconfig.DefaultWorkflowTaskTimeout.Key():                   5 * time.Second,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
		// Sweeps look all owners up, in turn: a cache that does not hold them all holds
		// none of them when it is their turn again.
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 32768,
		// Nothing leaves the machine.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
	}
}

// parseArgs reads args, with or without the leading words "server start-dev".
// Help is written to out.
func parseArgs(args []string, out io.Writer) (*options, error) {
	if len(args) >= 2 && args[0] == "server" && args[1] == "start-dev" {
		args = args[2:]
	}
	o := &options{pragmas: map[string]string{}}
	var (
		namespaces, attributes, pragmas, dynamic, origins repeated
		uiPort                                            int
		headless                                          bool
	)
	fs := flag.NewFlagSet("tollgate-engine", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are returned and printed once
	fs.StringVar(&o.dbFile, "db-filename", "", "SQLite `file`; without it everything is kept in memory")
	fs.StringVar(&o.dbFile, "f", "", "short for --db-filename")
	fs.StringVar(&o.ip, "ip", "127.0.0.1", "loopback `address` of the gRPC frontend")
	fs.IntVar(&o.port, "port", defaultPort, "`port` of the gRPC frontend")
	fs.IntVar(&o.port, "p", defaultPort, "short for --port")
	fs.IntVar(&o.httpPort, "http-port", 0, "`port` of the HTTP API (default any free one)")
	fs.IntVar(&o.metricsPort, "metrics-port", 0, "`port` of the server's Prometheus metrics (default none)")
	fs.IntVar(&uiPort, "ui-port", 0, "`port` of the Web UI (default --port + 1000)")
	fs.BoolVar(&headless, "headless", false, "start no Web UI")
	fs.Var(&namespaces, "namespace", "`namespace` to create if missing, repeatable; default is always created")
	fs.Var(&namespaces, "n", "short for --namespace")
	fs.DurationVar(&o.retention, "retention", 24*time.Hour, "how long a new namespace keeps closed workflows")
	fs.Var(&attributes, "search-attribute", "search attribute `Name=Type` that every --namespace gets if missing, repeatable")
	fs.Var(&pragmas, "sqlite-pragma", "SQLite pragma `name=value`, repeatable")
	fs.Var(&dynamic, "dynamic-config-value", "dynamic configuration `key=JSON`, repeatable")
	fs.StringVar(&o.ui.ip, "ui-ip", "", "loopback `address` of the Web UI (default --ip)")
	fs.StringVar(&o.ui.publicPath, "ui-public-path", "", "path `prefix` of the Web UI")
	fs.StringVar(&o.ui.assetPath, "ui-asset-path", "", "`directory` of the Web UI's files instead of the built-in ones")
	fs.StringVar(&o.ui.codecEndpoint, "ui-codec-endpoint", "", "`URL` of the payload codec that the Web UI uses")
	fs.BoolVar(&o.ui.codecCredentials, "ui-codec-credentials", false, "let the browser send its cookies to the codec")
	fs.Var(&origins, "ui-cors-origin", "`origin` whose pages may call the Web UI's API, repeatable")
	fs.StringVar(&o.logLevel, "log-level", "warn", "`level`: debug, info, warn, error or never")
	fs.StringVar(&o.logFormat, "log-format", "text", "`format`: text, pretty or json")
	fs.BoolVar(&o.exitWithStdin, "exit-with-stdin", false, "stop when standard input ends, so that no engine outlives its supervisor")

	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(out, "Usage: tollgate-engine [server start-dev] [flags]")
			fs.SetOutput(out)
			fs.PrintDefaults()
		}
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: only flags are allowed", fs.Arg(0))
	}

	o.namespaces = namespaceList(namespaces)
	o.ui.corsOrigins = origins
	if o.ui.ip == "" {
		o.ui.ip = o.ip
	}
	switch {
	case headless:
	case uiPort == 0:
		o.uiPort = o.port + uiPortOffset
	default:
		o.uiPort = uiPort
	}
	var err error
	if o.searchAttributes, err = parseAttributes(attributes); err != nil {
		return nil, err
	}
	if o.pragmas, err = parsePragmas(pragmas); err != nil {
		return nil, err
	}
	if o.dynamicConfig, err = parseDynamicConfig(dynamic); err != nil {
		return nil, err
	}
	return o, o.check()
}

func (o *options) check() error {
	var err error
	if o.ip, err = loopback("--ip", o.ip); err != nil {
		return err
	}
	if o.ui.ip, err = loopback("--ui-ip", o.ui.ip); err != nil {
		return err
	}
	ports := []struct {
		flag  string
		value int
		min   int
	}{
		{"--port", o.port, 1},
		{"--http-port", o.httpPort, 0},
		{"--ui-port", o.uiPort, 0},
		{"--metrics-port", o.metricsPort, 0},
	}
	for i, p := range ports {
		if p.value < p.min || p.value > math.MaxUint16 {
			return fmt.Errorf("%s %d: want %d to %d", p.flag, p.value, p.min, math.MaxUint16)
		}
		for _, q := range ports[:i] {
			if p.value != 0 && p.value == q.value {
				return fmt.Errorf("%s %d: already used by %s", p.flag, p.value, q.flag)
			}
		}
	}
	if o.retention < time.Hour {
		return fmt.Errorf("--retention %v: want 1h or more", o.retention)
	}
	if levels := []string{"debug", "info", "warn", "error", "never"}; !slices.Contains(levels, o.logLevel) {
		return fmt.Errorf("--log-level %q: want one of %s", o.logLevel, strings.Join(levels, ", "))
	}
	if formats := []string{"text", "pretty", "json"}; !slices.Contains(formats, o.logFormat) {
		return fmt.Errorf("--log-format %q: want one of %s", o.logFormat, strings.Join(formats, ", "))
	}
	if e := o.ui.codecEndpoint; e != "" {
		u, err := url.Parse(e)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return fmt.Errorf("--ui-codec-endpoint %q: want an http or https URL", e)
		}
	}
	return nil
}

// loopback returns the numeric form of a loopback address. Nothing here asks
// for credentials, so no other address is allowed.
func loopback(name, host string) (string, error) {
	if host == "localhost" {
		return "127.0.0.1", nil
	}
	ip := net.ParseIP(host)
	if ip == nil || !ip.IsLoopback() {
		return "", fmt.Errorf("%s %q: want a loopback address such as 127.0.0.1, because the engine has no access control", name, host)
	}
	return ip.String(), nil
}

func namespaceList(given []string) []string {
	list := append([]string{defaultNamespace}, given...)
	slices.Sort(list)
	return slices.Compact(list)
}

func parseAttributes(given []string) (map[string]enumspb.IndexedValueType, error) {
	attrs := map[string]enumspb.IndexedValueType{}
	for _, g := range given {
		name, typ, ok := strings.Cut(g, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--search-attribute %q: want Name=Type", g)
		}
		t, err := enumspb.IndexedValueTypeFromString(typ)
		if err != nil || t == enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return nil, fmt.Errorf("--search-attribute %q: type %q: want Keyword, KeywordList, Text, Int, Double, Bool or Datetime", g, typ)
		}
		if old, ok := attrs[name]; ok && old != t {
			return nil, fmt.Errorf("--search-attribute %q: already given as %v", g, old)
		}
		attrs[name] = t
	}
	return attrs, nil
}

func parsePragmas(given []string) (map[string]string, error) {
	pragmas := map[string]string{}
	for k, v := range fastPragmas {
		pragmas[k] = v
	}
	for _, g := range given {
		name, value, ok := strings.Cut(g, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("--sqlite-pragma %q: want name=value", g)
		}
		pragmas[strings.ToLower(name)] = value
	}
	return pragmas, nil
}

func parseDynamicConfig(given []string) (dynamicconfig.StaticClient, error) {
	dyn := fastDynamicConfig()
	for _, g := range given {
		key, raw, ok := strings.Cut(g, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--dynamic-config-value %q: want key=JSON", g)
		}
		var value any
		d := json.NewDecoder(strings.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("--dynamic-config-value %q: value is not JSON: %w", g, err)
		}
		dyn[dynamicconfig.MakeKey(key)] = plainNumber(value)
	}
	return dyn, nil
}

// plainNumber turns whole numbers into ints: the server silently ignores an
// integer setting that arrives as a float.
func plainNumber(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := strconv.Atoi(n.String()); err == nil {
		return i
	}
	f, _ := n.Float64() // a JSON number always parses, at worst as infinity
	return f
}
