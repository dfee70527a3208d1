// Command gendoc writes the reference of the command line,
// docs/reference/cli.md. Run it from the module's root.
package main

import (
	"fmt"
	"os"

	"github.com/tollgate-dev/tollgate/internal/cli"
)

const path = "docs/reference/cli.md"

func main() {
	if err := os.WriteFile(path, []byte(cli.Reference()), 0o644); err != nil {
		fmt.Fprintf(os.Stderr, "gendoc: %v: run it from the module's root\n", err)
		os.Exit(1)
	}
}
