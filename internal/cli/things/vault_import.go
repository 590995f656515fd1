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
	"palyra/internal/cli/things/moving"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
)

// secretImport is what the flags of import say.
type secretImport struct{ preview, undo, finish, sure bool }

func (a *vaultCommands) importCommand() *cobra.Command {
	var f secretImport
	c := &cobra.Command{
		Use: "import", Short: "Move the secrets of palyrad's configuration into the vault", Args: command.Args(0, 0),
		Long: "Put each [[secrets]] of palyrad's configuration, and the api_key_file of each model,\n" +
			"into the vault, and rewrite the configuration: the tables go, and api_key_file becomes\n" +
			"api_key_secret. All else in the file stays as it is. It runs on the gateway's host, as\n" +
			"somebody who may read the files and write the configuration. Then restart palyrad.\n\n" +
			"The files with the values stay until --finish, which compares them with the vault and\n" +
			"removes them. Until then --undo puts the configuration back and takes out of the vault\n" +
			"what the import put there and nobody changed since. After a stop, run it again.",
		Example: "palyra vault import --dry-run\npalyra vault import --config /etc/palyra/palyra.toml\npalyra vault import --undo\npalyra vault import --finish",
	}
	c.RunE = a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
		m, err := a.mover(ctx, g)
		if err != nil {
			return err
		}
		return a.move(ctx, m, f)
	})
	c.Flags().BoolVar(&f.preview, "dry-run", false, "say what would be moved, and change nothing")
	c.Flags().BoolVar(&f.undo, "undo", false, "put the configuration of before back")
	c.Flags().BoolVar(&f.finish, "finish", false, "remove the files whose values are in the vault; after that nothing can be undone")
	c.Flags().BoolVar(&f.sure, "yes", false, "with --finish: do not ask")
	c.MarkFlagsMutuallyExclusive("dry-run", "undo", "finish")
	return c
}

// mover is for the configuration of the gateway that is asked, which has to be on this
// machine.
func (a *vaultCommands) mover(ctx context.Context, g *client.Gateway) (*moving.Mover, error) {
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
		return nil, reason.Errorf(reason.InvalidInput, "there is no configuration file %s", path).WithRemedy("Name the file of palyrad with --config.")
	}
	path, err = filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, err
	}
	return &moving.Mover{
		Path: path, Vault: vaultOf{g.Vault}, Started: status.GetStartedAt().AsTime(),
		Load: func() (*config.Config, error) {
			c, _, err := config.Load(a.LoadOptions())
			return c, err
		},
	}, nil
}

func (a *vaultCommands) move(ctx context.Context, m *moving.Mover, f secretImport) error {
	switch {
	case f.preview:
		done, err := m.Preview(ctx)
		return a.moved("Import", m.Path, done, err, "nothing was changed; without --dry-run it is done")
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
		"the files are still there: `palyra vault import --finish` removes them, `palyra vault import --undo` goes back")
}

// moved shows what was done, and what comes next where anything was.
func (a *vaultCommands) moved(kind, path string, done moving.Report, err error, next ...string) error {
	if err != nil {
		return err
	}
	if len(done.Secrets) == 0 {
		a.Say("there is nothing to move: %s has no [[secrets]] and no api_key_file", path)
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

func movedObject(one moving.Moved) printer.Object {
	o := printer.Object{{Name: "ref", Value: one.Ref}, {Name: "from", Value: one.From}, {Name: "file", Value: one.File}, {Name: "state", Value: one.State}}
	if !one.Model {
		was, is := placeholders(one)
		o = append(o, printer.Member{Name: "placeholder_in_config", Value: was}, printer.Member{Name: "placeholder_in_vault", Value: is})
	}
	return o
}

// placeholders are those of http.fetch, for the secret of the configuration and for that
// of the vault.
func placeholders(one moving.Moved) (config, vault string) {
	return "palyra-sec-" + one.Name(), "palyra-sec-global~" + one.Name()
}

// changes says what callers and policies have to call otherwise.
func changes(list []moving.Moved) (texts []string) {
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

// vaultOf is the vault of a gateway, by its API.
type vaultOf struct {
	api palyrav1connect.VaultServiceClient
}

func (v vaultOf) Get(ctx context.Context, ref string) (*palyrav1.Secret, error) {
	reply, err := v.api.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: ref})
	if err = told(err); reason.Of(err) == reason.NotFound {
		return nil, nil
	}
	return reply.GetSecret(), err
}

func (v vaultOf) Put(ctx context.Context, req *palyrav1.PutSecretRequest) error {
	_, err := v.api.PutSecret(ctx, req)
	return told(err)
}

func (v vaultOf) Reveal(ctx context.Context, ref string) ([]byte, error) {
	reply, err := v.api.RevealSecret(ctx, &palyrav1.RevealSecretRequest{Ref: ref})
	return reply.GetValue(), told(err)
}

func (v vaultOf) Remove(ctx context.Context, ref string) error {
	_, err := v.api.RemoveSecret(ctx, &palyrav1.RemoveSecretRequest{Ref: ref})
	return told(err)
}
