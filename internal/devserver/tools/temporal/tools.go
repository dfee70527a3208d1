//go:build tools

// Package tools pins the temporal command line that the tests run. It is a
// module of its own: it needs another version of the server than the engine.
package tools

import _ "github.com/temporalio/cli/cmd/temporal"
