package cli

import (
	"errors"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"palyra/internal/config"
	"palyra/internal/identity"
)

// loadOptions says where the configuration comes from.
func (a *app) loadOptions() config.LoadOptions {
	return config.LoadOptions{Path: a.flags.config, Env: a.streams.Getenv}
}

var settingListing = listing{kind: "Setting", columns: []string{"KEY", "VALUE", "ORIGIN"}, empty: "no settings"}

func (a *app) configCommand() *cobra.Command {
	check := &cobra.Command{Use: "check [FILE]", Short: "Check palyra.toml and the PALYRA_* variables", Args: args(0, 1),
		RunE: func(_ *cobra.Command, given []string) error { return a.checkConfig(given) }}
	show := &cobra.Command{Use: "show", Short: "Show every effective value with its origin", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error { return a.showConfig() }}
	path := &cobra.Command{Use: "path", Short: "Print which file is read", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error { return a.configPath() }}
	return newGroup("config", "Check and show the configuration", check, show, path)
}

// checkConfig prints each finding on stdout, and exits with the code of an
// invalid configuration when there is one.
func (a *app) checkConfig(given []string) error {
	opts := a.loadOptions()
	if len(given) == 1 {
		opts.Path = given[0]
	}
	findings := config.Check(opts)
	var records []record
	for _, f := range findings {
		records = append(records, record{
			name: f.Key,
			body: object{
				{"key", f.Key}, {"origin", f.Origin.String()}, {"line", f.Origin.Line}, {"column", f.Origin.Column},
				{"message", f.Message}, {"remedy", f.Remedy},
			},
			cells: []string{f.String()},
		})
	}
	if err := a.printFindings("ConfigFinding", records); err != nil {
		return err
	}
	if len(findings) > 0 {
		return exitError{2}
	}
	path, exists := config.Path(opts)
	if !exists {
		a.say("ok: there is no configuration file at %s; the defaults hold", path)
		return nil
	}
	a.say("ok: %s", path)
	return nil
}

// printFindings prints findings as plain lines for people; there is no header,
// since a finding may have several lines.
func (a *app) printFindings(kind string, records []record) error {
	switch a.format() {
	case formatTable, formatWide:
		for _, r := range records {
			if err := a.writeOut(visibleText(r.cells[0]) + "\n"); err != nil {
				return err
			}
		}
		return nil
	}
	return a.printList(listing{kind: kind}, records)
}

func (a *app) showConfig() error {
	c, origins, err := config.Load(a.loadOptions())
	if err != nil {
		return err
	}
	var records []record
	used, by := a.usedAddress(c, origins)
	for _, s := range config.Settings(c, origins) {
		if s.Key == "client.address" && used != "" {
			records = append(records, record{
				name: s.Key, body: object{{"key", s.Key}, {"value", strconv.Quote(used)}, {"origin", by}},
				cells: []string{s.Key, strconv.Quote(used), by},
			})
			continue
		}
		records = append(records, record{
			name:  s.Key,
			body:  object{{"key", s.Key}, {"value", s.Value}, {"origin", s.Origin.String()}},
			cells: []string{s.Key, s.Value, s.Origin.String()},
		})
	}
	return a.printList(settingListing, records)
}

// usedAddress is the gateway's address that commands use when it is not the
// one of the configuration, and where it comes from; "" when it is.
func (a *app) usedAddress(c *config.Config, origins config.Origins) (address, by string) {
	if a.flags.address != "" {
		return a.flags.address, "flag --address"
	}
	if origins["client.address"].Source != config.SourceDefault {
		return "", ""
	}
	dir := firstOf(a.flags.credentials, c.Client.Credentials, filepath.Join(c.StateDir, "operator"))
	b, err := identity.ReadBundle(dir)
	if err != nil || b.Address == "" {
		return "", ""
	}
	return b.Address, "credential bundle " + dir
}

func (a *app) configPath() error {
	path, exists := config.Path(a.loadOptions())
	if path == "" {
		return errors.New("there is no home directory to look for a configuration in")
	}
	body := object{{"path", path}, {"exists", exists}}
	return a.printOne("ConfigPath", record{name: path, body: body}, func(p *page) {
		p.b.WriteString(visibleLine(path) + "\n")
		if !exists {
			a.say("the file does not exist; the defaults hold")
		}
	})
}
