//go:build tools

// Package tools pins the old tctl command line that the tests run. It is a
// module of its own: its dependencies are years behind ours.
package tools

import _ "github.com/temporalio/tctl/cmd/tctl"
