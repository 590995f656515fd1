package cli

import (
	"github.com/spf13/cobra"

	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/version"
)

// versionCommand prints the version of the build.
func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of palyra, with its commit and date", Args: command.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := version.Get()
			body := printer.Object{
				{"version", v.Version}, {"revision", v.Revision}, {"date", v.Date}, {"modified", v.Modified},
				{"go", v.Go}, {"os", v.OS}, {"arch", v.Arch},
			}
			return a.PrintOne("Version", printer.Record{Name: v.Version, Body: body}, func(p *printer.Page) {
				for _, f := range v.Fields() {
					p.Field(f[0], f[1])
				}
			})
		},
	}
}
