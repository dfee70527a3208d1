package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// version is set by the linker for releases.
var version string

func buildInfo() telemetry.BuildInfo { return telemetry.ReadBuildInfo(version) }

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this program",
		Example: "  tollgate version\n  tollgate version -o json",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			b := buildInfo()
			v := struct {
				Version   string `json:"version"`
				Revision  string `json:"revision,omitempty"`
				GoVersion string `json:"goVersion"`
			}{b.Version, b.Revision, b.GoVersion}
			return a.print(v, func(w io.Writer, _ bool) error {
				_, err := fmt.Fprintf(w, "tollgate %s %s %s\n", v.Version, orDash(v.Revision), v.GoVersion)
				return err
			})
		},
	}
}
