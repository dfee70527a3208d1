// Gendoc writes the support matrix of the providers into the documentation.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tollgate-dev/tollgate/internal/provider/all"
	"github.com/tollgate-dev/tollgate/internal/provider/all/matrix"
	sources "github.com/tollgate-dev/tollgate/internal/source/all"
)

func main() {
	root := flag.String("root", ".", "`folder` of the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(root string) error {
	rows, err := matrix.Build(os.DirFS(root), all.Types(), sources.Types())
	if err != nil {
		return err
	}
	readme := filepath.Join(root, "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	if text, err = matrix.Readme(text, rows); err != nil {
		return err
	}
	if err := os.WriteFile(readme, text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs/reference/providers.md"), matrix.Page(rows), 0o644)
}
