package people

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/config"
	"palyra/internal/identity"
)

// configCommands provides the commands of this family.
type configCommands struct{ *client.App }

var settingListing = printer.Listing{Kind: "Setting", Columns: []string{"KEY", "VALUE", "ORIGIN"}, Empty: "no settings"}

// ConfigCommand is `palyra config`.
func ConfigCommand(program *client.App) *cobra.Command {
	a := &configCommands{program}
	check := &cobra.Command{Use: "check [FILE]", Short: "Check palyra.toml and the PALYRA_* variables", Args: command.Args(0, 1),
		RunE: func(_ *cobra.Command, given []string) error { return a.checkConfig(given) }}
	show := &cobra.Command{Use: "show", Short: "Show every effective value with its origin", Args: command.Args(0, 0),
		RunE: func(*cobra.Command, []string) error { return a.showConfig() }}
	path := &cobra.Command{Use: "path", Short: "Print the path of the configuration file", Args: command.Args(0, 0),
		RunE: func(*cobra.Command, []string) error { return a.configPath() }}
	return command.NewGroup("config", "Check and show the configuration", check, show, path)
}

// checkConfig prints each finding on stdout, and exits with the code of an invalid configuration if
// there is one.
func (a *configCommands) checkConfig(given []string) error {
	opts := a.LoadOptions()
	if len(given) == 1 {
		opts.Path = given[0]
	}
	findings := config.Check(opts)
	var records []printer.Record
	for _, f := range findings {
		records = append(records, printer.Record{
			Name: f.Key,
			Body: printer.Object{
				{"key", f.Key}, {"origin", f.Origin.String()}, {"line", f.Origin.Line}, {"column", f.Origin.Column},
				{"message", f.Message}, {"remedy", f.Remedy},
			},
			Cells: []string{f.String()},
		})
	}
	if err := a.PrintFindings("ConfigFinding", records); err != nil {
		return err
	}
	if len(findings) > 0 {
		return command.Exit(2)
	}
	path, exists := config.Path(opts)
	if !exists {
		a.Say("ok: the configuration file %s does not exist; the defaults apply", path)
		return nil
	}
	a.Say("ok: %s", path)
	return nil
}

func (a *configCommands) showConfig() error {
	c, origins, err := config.Load(a.LoadOptions())
	if err != nil {
		return err
	}
	var records []printer.Record
	used, by := a.usedAddress(origins)
	for _, s := range config.Settings(c, origins) {
		origin := s.Origin.String()
		if s.Key == "client.address" && used != "" {
			s.Value, s.TOML, origin = used, strconv.Quote(used), by
		}
		records = append(records, printer.Record{
			Name:  s.Key,
			Body:  printer.Object{{"key", s.Key}, {"value", s.Value}, {"origin", origin}},
			Cells: []string{s.Key, s.TOML, origin},
		})
	}
	return a.PrintList(settingListing, records)
}

// usedAddress returns the gateway's address that commands use if it differs from the configuration,
// and its source; "" otherwise.
func (a *configCommands) usedAddress(origins config.Origins) (address, by string) {
	if a.Address != "" {
		return a.Address, "flag --address"
	}
	if origins["client.address"].Source != config.SourceDefault {
		return "", ""
	}
	dir, err := a.BundleInUse()
	if err != nil {
		return "", ""
	}
	b, err := identity.ReadBundle(dir)
	if err != nil || b.Address == "" {
		return "", ""
	}
	return b.Address, "credential bundle " + dir
}

func (a *configCommands) configPath() error {
	path, exists := config.Path(a.LoadOptions())
	if path == "" {
		return errors.New("finding the configuration: the home directory is not known")
	}
	body := printer.Object{{"path", path}, {"exists", exists}}
	return a.PrintOne("ConfigPath", printer.Record{Name: path, Body: body}, func(p *printer.Page) {
		p.Line(path)
		if !exists {
			a.Say("the file does not exist; the defaults apply")
		}
	})
}
