// Gendoc writes the contract page of the documentation.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

func main() {
	out := flag.String("o", "docs/provider-contract.md", "`file` to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(file string) error {
	var page bytes.Buffer
	if err := providertest.WriteContract(&page); err != nil {
		return err
	}
	return os.WriteFile(file, page.Bytes(), 0o644)
}
