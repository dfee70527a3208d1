//go:build tools

// Package tools pins promtool, which checks the alert rules, their tests and a
// scrape. It is a module of its own: ours needs nothing of Prometheus's server.
package tools

import _ "github.com/prometheus/prometheus/cmd/promtool"
