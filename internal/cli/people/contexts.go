package people

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/canonical"
	"palyra/internal/identity"
)

// contextCommands provides the commands of this family.
type contextCommands struct{ *client.App }

var contextListing = printer.Listing{
	Kind:    "Context",
	Columns: []string{"NAME", "CURRENT", "GATEWAY", "CREDENTIALS"},
	Wide:    []string{"CA", "PROBLEM"},
	Drop:    []string{"CREDENTIALS"},
}

// ContextsCommand is `palyra context`.
func ContextsCommand(program *client.App) *cobra.Command {
	a := &contextCommands{program}
	return command.NewGroup("context", "Choose among several gateways", a.list(), a.use(), a.add(), a.remove())
}

func (a *contextCommands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the gateways that have a name here", Args: command.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			c, err := a.Contexts()
			if err != nil {
				return err
			}
			records := []printer.Record{a.record(client.LocalContext, "", c.Current)}
			for _, name := range c.Names() {
				records = append(records, a.record(name, c.Bundles[name], c.Current))
			}
			return a.PrintList(contextListing, records)
		},
	}
}

// record shows a context with the address in its bundle. An unreadable bundle is listed with its
// problem.
func (a *contextCommands) record(name, bundle, current string) printer.Record {
	address, root, problem := "", "", ""
	if bundle != "" {
		b, err := identity.ReadBundle(bundle)
		if address = b.Address; err != nil {
			problem = client.Explain(nil, err).Message
		} else {
			root = canonical.Digest(b.Root.Raw)
		}
	}
	is := name == current || current == "" && name == client.LocalContext
	return printer.Record{
		Name:  name,
		Body:  printer.Object{{Name: "name", Value: name}, {Name: "current", Value: is}, {Name: "address", Value: address}, {Name: "credentials", Value: bundle}, {Name: "ca_fingerprint", Value: root}, {Name: "problem", Value: problem}},
		Cells: []string{name, printer.Yes(is), address, bundle}, Wide: []string{root, problem},
	}
}

func (a *contextCommands) use() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Select a gateway for all terminals", Args: command.Args(1, 1),
		Long: "Select a gateway for all terminals. --credentials and PALYRA_CREDENTIALS still\n" +
			"take precedence, and --context selects another for one command. \"local\" is the gateway of this\n" +
			"machine.",
		Example: "palyra context use work\npalyra context use local", ValidArgsFunction: a.complete(true),
		RunE: a.changing(func(c *client.Contexts, given []string) error {
			if _, err := c.Bundle(given[0]); err != nil {
				return err
			}
			c.Current = given[0]
			return nil
		}),
	}
}

func (a *contextCommands) add() *cobra.Command {
	return &cobra.Command{
		Use: "add NAME DIR", Short: "Name the credential bundle in a directory", Args: command.Args(2, 2),
		Long:    "Name the credential bundle in a directory. The bundle is not moved.",
		Example: "palyra context add work ~/work-credentials",
		RunE: a.changing(func(c *client.Contexts, given []string) error {
			dir, err := filepath.Abs(given[1])
			if err != nil {
				return err
			}
			if _, err := identity.ReadBundle(dir); err != nil {
				return err
			}
			return c.Add(given[0], dir)
		}),
	}
}

func (a *contextCommands) remove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a name; the bundle is not deleted", Args: command.Args(1, 1),
		ValidArgsFunction: a.complete(false),
		RunE: a.changing(func(c *client.Contexts, given []string) error {
			if _, err := c.Bundle(given[0]); err != nil {
				return err
			}
			delete(c.Bundles, given[0])
			if c.Current == given[0] {
				c.Current = ""
			}
			return nil
		}),
	}
}

// changing reads the contexts, changes them by do, writes them, and prints the named one.
func (a *contextCommands) changing(do func(c *client.Contexts, given []string) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, given []string) error {
		c, err := a.Contexts()
		if err != nil {
			return err
		}
		bundle := c.Bundles[given[0]]
		if err := do(&c, given); err != nil {
			return err
		}
		if err := a.WriteContexts(c); err != nil {
			return err
		}
		if now, ok := c.Bundles[given[0]]; ok {
			bundle = now
		}
		current := c.Current
		if current == "" {
			current = client.LocalContext
		}
		return a.PrintOne("Context", a.record(given[0], bundle, c.Current), func(p *printer.Page) {
			p.Field("context", given[0])
			if bundle != "" {
				p.Field("credentials", bundle)
			}
			p.Field("in use", current)
		})
	}
}

func (a *contextCommands) complete(local bool) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := a.Contexts()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := c.Names()
		if local {
			names = append(names, client.LocalContext)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
