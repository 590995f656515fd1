package things

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/vault"
)

// metadata are the flags for the metadata of a secret.
type metadata struct {
	note, expires, header, env, file string
	hosts                            []string
}

func (m *metadata) flags(f *pflag.FlagSet) {
	f.StringVar(&m.note, "note", "", "a line about it")
	f.StringVar(&m.expires, "expires", "", "lifetime, such as 12h or 90d, or the time of expiry; never removes it")
	f.StringSliceVar(&m.hosts, "host", nil, "a host that may receive it, such as api.github.com:443; repeatable, and \"\" removes all")
	f.StringVar(&m.header, "header", "", "the header in which hosts get it (default: Authorization)")
	f.StringVar(&m.env, "env", "", "the variable in which programs get it, or its placeholder if it has hosts")
	f.StringVar(&m.file, "as-file", "", "the name of the file in which programs get it, if it has no hosts")
}

// given reports whether any metadata is set.
func (m *metadata) given(f *pflag.FlagSet) bool {
	return slices.ContainsFunc([]string{"note", "expires", "host", "header", "env", "as-file"}, f.Changed)
}

// apply copies the flags to a request.
func (m *metadata) apply(f *pflag.FlagSet, req *palyrav1.PutSecretRequest, a *vaultCommands) error {
	for name, set := range map[string]func(){
		"note": func() { req.Note = &m.note }, "header": func() { req.Header = &m.header }, "env": func() { req.Env = &m.env }, "as-file": func() { req.File = &m.file },
		"host": func() {
			req.Hosts = &palyrav1.HostList{}
			for _, host := range m.hosts {
				if host != "" {
					req.Hosts.Hosts = append(req.Hosts.Hosts, host)
				}
			}
		},
	} {
		if f.Changed(name) {
			set()
		}
	}
	if m.expires == "never" {
		req.NeverExpires = true
		return nil
	}
	var err error
	req.ExpiresAt, err = command.ParseEnd("expires", m.expires, a.Now())
	return err
}

func (a *vaultCommands) put() *cobra.Command {
	var m metadata
	var file string
	c := &cobra.Command{
		Use: "put REF", Short: "Store a value as the next version of a secret", Args: onlyRef,
		Long: "Store a value, read from stdin, from --file, or typed at a prompt. It is never an\n" +
			"argument, which would be visible in the process list. A file is stored byte for\n" +
			"byte, and so is stdin if the secret is a file (--as-file) or has\n" +
			"several lines; of a single line, the line end is not part of the value. The last 5\n" +
			"versions are kept, and the metadata of the secret is not changed.\n\n" +
			"A secret with --host travels in one header to these hosts alone, put there by the\n" +
			"gateway: it is not passed to programs or models.",
		Example: "palyra vault put vault://global/github --host api.github.com:443 < token\n" +
			"palyra vault put vault://user:ann/deploy-key --file ./id_ed25519 --note \"deploys\" --expires 90d",
		ValidArgsFunction: a.complete(),
	}
	c.RunE = client.ShowOne(a.App, "Secret", secretRecord, a.page, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Secret, error) {
		req := &palyrav1.PutSecretRequest{Ref: given[0]}
		if err := m.apply(c.Flags(), req, a); err != nil {
			return nil, err
		}
		var err error
		if req.Value, err = a.value(ctx, file); err != nil {
			return nil, err
		}
		if file == "" && !a.isFile(ctx, g, req) {
			req.Value = withoutLineEnd(req.GetValue())
		}
		if err := checked(req.GetValue()); err != nil {
			return nil, err
		}
		defer clear(req.GetValue())
		return send(ctx, g, req)
	})
	m.flags(c.Flags())
	c.Flags().StringVar(&file, "file", "", "read the value from this file, byte for byte")
	_ = c.MarkFlagFilename("file")
	return c
}

// onlyRef refuses a value that was passed as an argument, and does not repeat it.
func onlyRef(c *cobra.Command, given []string) error {
	if len(given) > 1 {
		return command.Usage("a value must not be an argument: it would be visible in the process list").
			WithRemedy("Pass it on stdin or with --file. If the argument was a value, remove it from your shell's history, or replace it.")
	}
	return command.Args(1, 1)(c, given)
}

func (a *vaultCommands) edit() *cobra.Command {
	var m metadata
	c := &cobra.Command{
		Use: "edit REF", Short: "Change the metadata of a secret, but not its value", Args: command.Args(1, 1),
		Example:           "palyra vault edit vault://global/github --expires 30d\npalyra vault edit vault://global/github --host api.github.com:443 --host uploads.github.com:443",
		ValidArgsFunction: a.complete(),
	}
	c.RunE = client.ShowOne(a.App, "Secret", secretRecord, a.page, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Secret, error) {
		if !m.given(c.Flags()) {
			return nil, command.Usage("no change was specified").WithRemedy("Specify one, such as --note or --expires; use `palyra vault put` for another value.")
		}
		req := &palyrav1.PutSecretRequest{Ref: given[0]}
		if err := m.apply(c.Flags(), req, a); err != nil {
			return nil, err
		}
		return send(ctx, g, req)
	})
	m.flags(c.Flags())
	return c
}

func send(ctx context.Context, g *client.Gateway, req *palyrav1.PutSecretRequest) (*palyrav1.Secret, error) {
	reply, err := g.Vault.PutSecret(ctx, req)
	return reply.GetSecret(), err
}

// isFile reports whether programs receive the secret as a file, by the request or by its existing
// metadata.
func (a *vaultCommands) isFile(ctx context.Context, g *client.Gateway, req *palyrav1.PutSecretRequest) bool {
	if req.File != nil {
		return req.GetFile() != ""
	}
	// A secret that does not exist, or that the caller may not see, has no metadata.
	before, err := g.Vault.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: req.GetRef()})
	return err == nil && before.GetSecret().GetFile() != ""
}

// withoutLineEnd removes the line end of a single-line value. A value of several lines, such as a
// private key, is unchanged, because parsers of such files require its last line end.
func withoutLineEnd(value []byte) []byte {
	if bytes.ContainsRune(bytes.TrimRight(value, "\r\n"), '\n') {
		return value
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
}

// value reads the value from a file, from stdin, or from a prompt.
func (a *vaultCommands) value(ctx context.Context, file string) ([]byte, error) {
	switch {
	case file != "":
		value, err := command.ReadAtMost(file, vault.MaxValue+1)
		if err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "reading the value: %w", err).WithRemedy("Name a file that you may read.")
		}
		return value, nil
	case !a.InTerminal:
		value, err := io.ReadAll(io.LimitReader(a.In, vault.MaxValue+3)) // longer input is refused in any case
		if err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "reading the value from stdin: %w", err)
		}
		return value, nil
	case !a.Interactive():
		return nil, command.Usage("a value is required").WithRemedy("Pass it on stdin or with --file.")
	}
	typed, err := a.AskHidden(ctx, "value: ")
	return []byte(typed), err
}

func checked(value []byte) error {
	switch {
	case len(value) == 0:
		return reason.Errorf(reason.InvalidInput, "the value is empty").WithRemedy("Pass it on stdin or with --file.")
	case len(value) > vault.MaxValue:
		return reason.Errorf(reason.InputTooLarge, "the value is larger than %d bytes", vault.MaxValue).WithRemedy("Store the data in an encrypted file, and its key in the vault.")
	}
	return nil
}

func (a *vaultCommands) get() *cobra.Command {
	req, reveal := &palyrav1.RevealSecretRequest{}, false
	c := &cobra.Command{
		Use: "get REF", Short: "Show a secret; its value only with --reveal", Args: command.Args(1, 1),
		Long: "Show a secret without its value, or with --reveal the value and nothing else. Each\n" +
			"access to a value is journaled and subject to policy. A pipe receives the\n" +
			"value byte for byte; at a terminal a line end follows, and characters that could\n" +
			"affect the terminal are escaped.",
		Example:           "palyra vault get vault://global/github\npalyra vault get --reveal vault://user:ann/deploy-key > id_ed25519",
		ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			if !reveal {
				if req.GetVersion() != 0 {
					return command.Usage("--version requires --reveal").WithRemedy("Add --reveal, or see `palyra vault history %s`.", given[0])
				}
				reply, err := g.Vault.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: given[0]})
				if err != nil {
					return err
				}
				s := reply.GetSecret()
				return a.PrintOne("Secret", secretRecord(s), func(p *printer.Page) { a.page(p, s) })
			}
			req.Ref = given[0]
			reply, err := g.Vault.RevealSecret(ctx, req)
			if err != nil {
				return err
			}
			defer clear(reply.GetValue())
			return a.reveal(reply)
		}),
	}
	c.Flags().BoolVar(&reveal, "reveal", false, "show the value")
	c.Flags().Int32Var(&req.Version, "version", 0, "with --reveal: this version (default: the newest)")
	return c
}

func (a *vaultCommands) reveal(reply *palyrav1.RevealSecretResponse) error {
	value := reply.GetValue()
	switch a.Format() {
	case printer.FormatTable, printer.FormatWide:
		if !a.OutTerminal {
			_, err := a.Out.Write(value)
			return err
		}
		a.Say("warning: the value is now on your screen, and possibly in the scrollback")
		return a.WriteOut(printer.WithNewline(printer.VisibleText(string(value))))
	}
	rec := secretRecord(reply.GetSecret())
	if utf8.Valid(value) {
		rec.Body = append(rec.Body, printer.Member{Name: "value", Value: string(value)})
	} else {
		rec.Body = append(rec.Body, printer.Member{Name: "value_base64", Value: base64.StdEncoding.EncodeToString(value)})
	}
	return a.PrintOne("Secret", rec, func(*printer.Page) {})
}
