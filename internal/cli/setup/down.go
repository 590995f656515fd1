package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/files"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/setup/install"
	"palyra/internal/cli/setup/service"
	"palyra/internal/cli/witness"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
)

// downFlags are the flags of `palyra down`.
type downFlags struct {
	sure, purge bool
	exported    string
}

// DownCommand is `palyra down`; export writes the journal to a new file.
func DownCommand(program *client.App, export func(ctx context.Context, path string) error) *cobra.Command {
	a, f := &upCommands{program, export}, &downFlags{}
	c := &cobra.Command{
		Use: "down", Short: "Take back all that palyra up did", Args: command.Args(0, 0),
		Long: "Take back what `palyra up` and `palyra hook install` did for you: each file of the\n" +
			"agents is byte for byte as before, or without Palyra's entries where it was changed\n" +
			"since; the service, its socket and the hooks' tokens are gone. The gateway's state, with\n" +
			"the journal, stays.\n\n" +
			"With --purge the state goes, too, once its journal is exported to a file. It works after\n" +
			"a `palyra up` that was killed at any point; run it again if it is stopped itself.",
		Example: "palyra down\npalyra down --purge --export ./palyra-journal.ndjson",
	}
	c.Flags().BoolVar(&f.sure, "yes", false, "with --purge: do not ask")
	c.Flags().BoolVar(&f.purge, "purge", false, "remove the gateway's state as well, its journal and keys included, after an export")
	c.Flags().StringVar(&f.exported, "export", "", "with --purge: the new file of the export (default: ~/palyra-journal-DATE.ndjson)")
	_ = c.MarkFlagFilename("export", "ndjson")
	c.RunE = func(cmd *cobra.Command, _ []string) error { return a.down(cmd.Context(), f) }
	return c
}

// ending is the state of `palyra down`.
type ending struct {
	machine files.Machine
	config  *config.Config
	book    *install.Book
	palyrad service.Palyrad
	gateway *client.Gateway
	undone  []install.Undone
	// left lists the failed steps.
	left []string
}

func (a *upCommands) down(ctx context.Context, f *downFlags) (err error) {
	if f.exported != "" && !f.purge {
		return command.Usage("--export is for --purge").WithRemedy("`palyra journal export FILE` exports the journal, and removes nothing.")
	}
	machine, err := install.MachineOf(a.App)
	if err != nil {
		return err
	}
	c, _, _, err := config.LoadClient(a.LoadOptions())
	if err != nil {
		return err
	}
	if f.purge {
		if err := a.Confirm(ctx, f.sure, "Remove %s, with the gateway's keys and its journal, after an export?", c.StateDir); err != nil {
			return err
		}
	}
	book, err := install.Open(machine.ClientState())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	d := &ending{machine: machine, config: c, book: book}
	if s := book.Service; s != nil {
		d.palyrad = service.Palyrad{Machine: machine, Manager: s.Manager, Program: s.Program, StateDir: c.StateDir, RunDir: s.Run, UID: os.Getuid()}
		if d.palyrad.Config, err = a.configPath(); err != nil {
			return err
		}
	}
	if err := a.reach(ctx, d, f.purge); err != nil {
		return err
	}
	exported := ""
	if f.purge {
		if exported, err = a.exportFirst(ctx, d, f.exported); err != nil {
			return err
		}
	}
	if err := a.takeBack(ctx, d); err != nil {
		return err
	}
	if f.purge {
		if err := purge(c.StateDir); err != nil {
			return err
		}
		if err := witness.Forget(a.App, witness.Fingerprint(d.gateway.Root)); err != nil {
			return err
		}
	}
	return a.printDown(d, exported, f.purge)
}

// reach connects to the gateway if it must be notified. If that fails, it starts the service of
// `palyra up` if the gateway is needed or hooks have tokens.
func (a *upCommands) reach(ctx context.Context, d *ending, needed bool) error {
	if len(d.book.Hooks) == 0 && !needed {
		return nil
	}
	g, err := a.answering(ctx)
	if err == nil {
		d.gateway = g
		return nil
	}
	if d.book.Service != nil && needed || d.book.Service != nil && hasTokens(d.book.Hooks) {
		a.Say("starting palyrad, to revoke the tokens ...")
		if serr := d.palyrad.Start(ctx); serr == nil {
			if rerr := a.ready(ctx, &setup{palyrad: d.palyrad}); rerr == nil {
				d.gateway, err = a.answering(ctx)
			}
		}
	}
	if err != nil && needed {
		return err
	}
	return nil
}

func hasTokens(hooks []install.Hook) bool {
	return slices.ContainsFunc(hooks, func(h install.Hook) bool { return h.Token != "" })
}

// answering returns the gateway after it has answered a request.
func (a *upCommands) answering(ctx context.Context) (*client.Gateway, error) {
	g, err := a.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{}); err != nil {
		return nil, client.Explain(nil, err)
	}
	return g, nil
}

// exportFirst exports the journal to a file that does not exist yet.
func (a *upCommands) exportFirst(ctx context.Context, d *ending, path string) (string, error) {
	if path == "" {
		path = filepath.Join(d.machine.Home, "palyra-journal-"+a.Now().UTC().Format("20060102-150405")+".ndjson")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return path, a.export(ctx, path)
}

// takeBack restores all files, and removes the service.
func (a *upCommands) takeBack(ctx context.Context, d *ending) error {
	site := install.SiteOf(a.App, d.machine, d.config, &d.book.Record)
	i := &install.Installer{Site: site, Book: d.book, Gateway: d.gateway}
	for _, h := range slices.Backward(slices.Clone(d.book.Hooks)) {
		done, err := i.Uninstall(ctx, h)
		d.undone = append(d.undone, done...)
		if errors.Is(err, install.ErrGatewayAway) {
			d.left = append(d.left, fmt.Sprintf("the gateway does not answer and still expects requests of %s%s", h.Agent.Title(), tokenLeft(h)))
			err = d.book.DropHook(h)
		}
		if err != nil {
			return err
		}
	}
	if d.book.Service != nil {
		if err := d.book.Step("stopped palyrad", func() error { return d.palyrad.Stop(ctx) }); err != nil {
			return err
		}
	}
	done, err := d.book.Undo(owner)
	d.undone = append(d.undone, done...)
	if err != nil || d.book.Service == nil {
		return err
	}
	if err := d.palyrad.Forget(ctx); err != nil {
		return err
	}
	d.book.Service = nil
	return d.book.Step("forgot the service", d.book.Save)
}

func tokenLeft(h install.Hook) string {
	if h.Token == "" {
		return ""
	}
	return ", and the token \"" + h.Token + "\", which stands in no file any more, is not revoked (`palyra tokens revoke`)"
}

// purge removes a state directory that no palyrad uses, and that contains only palyrad's files.
func purge(dir string) error {
	if who, err := statedir.Holder(dir); err != nil || who != "" {
		return errors.Join(err, reason.Errorf(reason.ConfigInvalid, "%s still uses %s", who, dir).WithRemedy("Stop it, and run `palyra down --purge` again."))
	}
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if !statedir.Known(e.Name()) && e.Name()[0] != '.' {
			return reason.Errorf(reason.ConfigInvalid, "%s has %s, which is not palyrad's: nothing was removed", dir, e.Name()).
				WithRemedy("Move it away, and run `palyra down --purge` again.")
		}
	}
	return os.RemoveAll(dir)
}

func (a *upCommands) printDown(d *ending, exported string, purged bool) error {
	var files []printer.Object
	var lines []string
	for _, u := range d.undone {
		files = append(files, printer.Object{{Name: "path", Value: u.Path}, {Name: "state", Value: string(u.How)}})
		lines = append(lines, u.Path+"  "+string(u.How))
	}
	state := d.config.StateDir + ", with the journal, stays (`palyra down --purge` removes it)"
	if purged {
		state = d.config.StateDir + " is removed"
	}
	body := printer.Object{{Name: "files", Value: files}, {Name: "purged", Value: purged}, {Name: "exported", Value: exported}, {Name: "left", Value: append([]string{}, d.left...)}}
	return a.PrintOne("Down", printer.Record{Name: "down", Body: body}, func(p *printer.Page) {
		p.List("files", lines)
		if len(lines) == 0 {
			p.Field("files", "nothing was installed")
		}
		if exported != "" {
			p.Field("journal", exported+"; verify it with `palyra journal verify "+exported+"`")
		}
		p.Field("state", state)
		p.List("left", d.left)
	})
}
