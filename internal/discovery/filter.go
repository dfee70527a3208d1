package discovery

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// MaxWait is the longest that a long poll may ask for.
const MaxWait = time.Minute

// query is a request's parameters. A repeated parameter matches any of its
// values; different ones must all match.
type query struct {
	providers, namespaces, regions, zones []string
	labels                                []requirement
	// refusePartial: rather no answer than one without some provider.
	refusePartial bool
	wait          time.Duration
	strategy      string
	key           string
}

// invalidParam is one problem with a parameter.
type invalidParam struct {
	Parameter string `json:"parameter"`
	Detail    string `json:"detail"`
}

// Strategies of a pick.
const (
	strategyRandom      = "random"
	strategyLeastRecent = "least-recent"
	strategyHash        = "hash"
)

var (
	filterParams = []string{"provider", "namespace", "region", "zone", "labelSelector", "partial"}
	listParams   = append(slices.Clone(filterParams), "wait")
	pickParams   = append(slices.Clone(filterParams), "strategy", "key")
)

// parseQuery reads the parameters strictly: a mistyped filter that is ignored
// would hand out proxies that were not asked for.
func parseQuery(raw string, allowed []string, fleets []Fleet) (query, []invalidParam) {
	var bad []invalidParam
	add := func(param, format string, args ...any) {
		bad = append(bad, invalidParam{param, fmt.Sprintf(format, args...)})
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		add("", "the query string is malformed: %v", err)
		return query{}, bad
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	single := func(name string) string {
		if len(values[name]) > 1 {
			add(name, "is given %d times: once is allowed", len(values[name]))
		}
		return values.Get(name)
	}
	q := query{strategy: strategyRandom}
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			add(name, "is unknown: allowed are %s", strings.Join(allowed, ", "))
			continue
		}
		switch name {
		case "provider":
			q.providers = values[name]
			for _, p := range q.providers {
				if !slices.ContainsFunc(fleets, func(f Fleet) bool { return f.Provider == p }) {
					add(name, "%q is not configured: use one of %s", p, strings.Join(fleetNames(fleets), ", "))
				}
			}
		case "namespace":
			q.namespaces = values[name]
		case "region":
			q.regions = values[name]
		case "zone":
			q.zones = values[name]
		case "labelSelector":
			for _, s := range values[name] {
				reqs, err := parseSelector(s)
				if err != nil {
					add(name, "%v", err)
				}
				q.labels = append(q.labels, reqs...)
			}
		case "partial":
			switch v := single(name); v {
			case "allow":
			case "refuse":
				q.refusePartial = true
			default:
				add(name, "%q is unknown: use allow or refuse", v)
			}
		case "wait":
			v := single(name)
			d, err := time.ParseDuration(v)
			if err != nil || d < 0 || d > MaxWait {
				add(name, "%q is out of range: use a duration from 0s to %s", v, MaxWait)
			}
			q.wait = d
		case "strategy":
			q.strategy = single(name)
			if !slices.Contains([]string{strategyRandom, strategyLeastRecent, strategyHash}, q.strategy) {
				add(name, "%q is unknown: use random, least-recent or hash", q.strategy)
			}
		case "key":
			q.key = single(name)
		}
	}
	switch {
	case q.strategy == strategyHash && q.key == "":
		add("key", "is required with strategy=hash")
	case q.strategy != strategyHash && q.key != "":
		add("key", "has no effect with strategy=%s: use strategy=hash", q.strategy)
	}
	return q, bad
}

// fleets are those that the query is about.
func (q query) fleets(all []Fleet) []Fleet {
	if len(q.providers) == 0 {
		return all
	}
	var out []Fleet
	for _, f := range all {
		if slices.Contains(q.providers, f.Provider) {
			out = append(out, f)
		}
	}
	return out
}

func (q query) matches(p Proxy) bool {
	any := func(wanted []string, value string) bool { return len(wanted) == 0 || slices.Contains(wanted, value) }
	if !any(q.namespaces, p.Namespace) || !any(q.regions, p.Placement.Region) || !any(q.zones, p.Placement.Zone) {
		return false
	}
	for _, r := range q.labels {
		if !r.matches(p.Labels) {
			return false
		}
	}
	return true
}

func fleetNames(fleets []Fleet) []string {
	names := make([]string, len(fleets))
	for i, f := range fleets {
		names[i] = f.Provider
	}
	return names
}
