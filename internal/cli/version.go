package cli

import (
	"github.com/spf13/cobra"

	"palyra/internal/version"
)

// versionCommand says which build this is.
func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of palyra", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := version.Get()
			body := object{
				{"version", v.Version}, {"revision", v.Revision}, {"modified", v.Modified},
				{"go", v.Go}, {"os", v.OS}, {"arch", v.Arch},
			}
			return a.printOne("Version", record{name: v.Version, body: body}, func(p *page) {
				p.field("version", v.Version)
				p.field("revision", v.Revision)
				p.field("go", v.Go+" "+v.OS+"/"+v.Arch)
			})
		},
	}
}
