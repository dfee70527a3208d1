// Command gendoc writes the reference of the command line,
// docs/reference/cli.md in the module that it is run in.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tollgate-dev/tollgate/internal/cli"
)

const page = "docs/reference/cli.md"

func main() {
	root, err := moduleRoot()
	if err == nil {
		err = os.WriteFile(filepath.Join(root, page), []byte(cli.Reference()), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

// moduleRoot is the closest directory above that holds a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod here or above")
		}
		dir = filepath.Dir(dir)
	}
}
