package things

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/things/vaultmove"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
)

// secretImport has the flags of import.
type secretImport struct{ preview, undo, finish, sure bool }

func (a *vaultCommands) importCommand() *cobra.Command {
	var f secretImport
	c := &cobra.Command{
		Use: "import", Short: "Move the secrets of palyrad's configuration into the vault", Args: command.Args(0, 0),
		Long: "Put each [[secrets]] of palyrad's configuration, and the api_key_file of each model,\n" +
			"into the vault, and rewrite the configuration: the tables are removed, and api_key_file becomes\n" +
			"api_key_secret. All else in the file stays as it is. It runs on the gateway's host, as\n" +
			"a user who may read the files and write the configuration. Then restart palyrad.\n\n" +
			"The files with the values stay until --finish, which compares them with the vault and\n" +
			"removes them. Until then --undo restores the configuration and removes unchanged secrets of\n" +
			"the import from the vault. After an interruption, run it again.",
		Example: "palyra vault import --dry-run\npalyra vault import --config /etc/palyra/palyra.toml\npalyra vault import --undo\npalyra vault import --finish",
	}
	c.RunE = a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
		m, err := a.mover(ctx, g)
		if err != nil {
			return err
		}
		return a.move(ctx, m, f)
	})
	c.Flags().BoolVar(&f.preview, "dry-run", false, "list what would be moved, and change nothing")
	c.Flags().BoolVar(&f.undo, "undo", false, "restore the original configuration")
	c.Flags().BoolVar(&f.finish, "finish", false, "remove the files whose values are in the vault; after that nothing can be undone")
	c.Flags().BoolVar(&f.sure, "yes", false, "with --finish: do not ask")
	c.MarkFlagsMutuallyExclusive("dry-run", "undo", "finish")
	return c
}

// mover returns the Mover for the gateway's configuration, which must be on this machine.
func (a *vaultCommands) mover(ctx context.Context, g *client.Gateway) (*vaultmove.Mover, error) {
	status, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	if !g.Local {
		return nil, reason.Errorf(reason.InvalidInput, "the import works on the gateway's host alone, with the credentials of its local operator").
			WithRemedy("Run it there as the user that palyrad runs as, without --context and --credentials.")
	}
	path, exists := config.Path(a.LoadOptions())
	if !exists {
		return nil, reason.Errorf(reason.InvalidInput, "the configuration file %s does not exist", path).WithRemedy("Specify the file of palyrad with --config.")
	}
	path, err = filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, err
	}
	return &vaultmove.Mover{
		Path: path, Vault: vaultOf{g.Vault}, Started: status.GetStartedAt().AsTime(),
		Load: func() (*config.Config, error) {
			c, _, err := config.Load(a.LoadOptions())
			return c, err
		},
	}, nil
}

func (a *vaultCommands) move(ctx context.Context, m *vaultmove.Mover, f secretImport) error {
	switch {
	case f.preview:
		done, err := m.Preview(ctx)
		return a.moved("Import", m.Path, done, err, "nothing was changed; omit --dry-run to import")
	case f.undo:
		done, err := m.Undo(ctx)
		return a.moved("ImportUndone", m.Path, done, err, "restart palyrad: until then it uses the configuration that it was started with")
	case f.finish:
		if err := a.Confirm(ctx, f.sure, "Remove the files whose values are in the vault?"); err != nil {
			return err
		}
		done, err := m.Finish(ctx)
		return a.moved("ImportFinished", m.Path, done, err, "copies of the files, such as in backups, still have the values")
	}
	done, err := m.Import(ctx)
	return a.moved("Import", m.Path, done, err,
		"restart palyrad: until then it uses the configuration that it was started with",
		"the files still exist: `palyra vault import --finish` deletes them, `palyra vault import --undo` reverts the import")
}

// moved prints the results, and the next steps if there were changes.
func (a *vaultCommands) moved(kind, path string, done vaultmove.Report, err error, next ...string) error {
	if err != nil {
		return err
	}
	if len(done.Secrets) == 0 {
		a.Say("nothing to move: %s has no [[secrets]] and no api_key_file", path)
		next = nil
	}
	list := make([]printer.Object, len(done.Secrets))
	for i, one := range done.Secrets {
		list[i] = movedObject(one)
	}
	body := printer.Object{
		{Name: "config", Value: path}, {Name: "copy", Value: done.Copy}, {Name: "record", Value: done.Record}, {Name: "secrets", Value: list},
	}
	err = a.PrintOne(kind, printer.Record{Name: path, Body: body}, func(p *printer.Page) {
		p.Field("config", path)
		p.Field("copy", done.Copy)
		for _, one := range done.Secrets {
			p.Field("secret", one.Ref+": "+one.State)
			p.Field("  of", strings.Join(one.From, ", "))
			p.Field("  file", one.File)
			if !one.Model {
				was, is := placeholders(one)
				p.Field("  placeholder", was+" and "+is)
			}
		}
	})
	for _, text := range append(changes(done.Secrets), next...) {
		a.Say("%s", text)
	}
	return err
}

func movedObject(one vaultmove.Moved) printer.Object {
	o := printer.Object{{Name: "ref", Value: one.Ref}, {Name: "from", Value: one.From}, {Name: "file", Value: one.File}, {Name: "state", Value: one.State}}
	if !one.Model {
		was, is := placeholders(one)
		o = append(o, printer.Member{Name: "placeholder_in_config", Value: was}, printer.Member{Name: "placeholder_in_vault", Value: is})
	}
	return o
}

// placeholders returns the http.fetch placeholders of the configuration's secret and of the
// vault's.
func placeholders(one vaultmove.Moved) (config, vault string) {
	return "palyra-sec-" + one.Name(), "palyra-sec-global~" + one.Name()
}

// changes describes the names that callers and policies must change.
func changes(list []vaultmove.Moved) (texts []string) {
	var names []string
	for _, one := range list {
		if one.Model {
			continue
		}
		names = append(names, one.Name())
	}
	if len(names) > 0 {
		name := names[0]
		texts = append(texts, "in the vault the name of a secret is another one, for http.fetch palyra-sec-global~"+name+" in place of palyra-sec-"+name+
			", for policies (context.egress.secrets) global/"+name+" in place of "+name+": change prompts, scripts and policies that name "+strings.Join(names, ", "))
	}
	return texts
}

// vaultOf accesses the vault of a gateway through its API.
type vaultOf struct {
	api palyrav1connect.VaultServiceClient
}

func (v vaultOf) Get(ctx context.Context, ref string) (*palyrav1.Secret, error) {
	reply, err := v.api.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: ref})
	if err = gatewayReason(err); reason.Of(err) == reason.NotFound {
		return nil, nil
	}
	return reply.GetSecret(), err
}

func (v vaultOf) Put(ctx context.Context, req *palyrav1.PutSecretRequest) error {
	_, err := v.api.PutSecret(ctx, req)
	return gatewayReason(err)
}

func (v vaultOf) Reveal(ctx context.Context, ref string) ([]byte, error) {
	reply, err := v.api.RevealSecret(ctx, &palyrav1.RevealSecretRequest{Ref: ref})
	return reply.GetValue(), gatewayReason(err)
}

func (v vaultOf) Remove(ctx context.Context, ref string) error {
	_, err := v.api.RemoveSecret(ctx, &palyrav1.RemoveSecretRequest{Ref: ref})
	return gatewayReason(err)
}
