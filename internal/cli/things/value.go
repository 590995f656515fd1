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

// metadata are the flags about a secret beside its value.
type metadata struct {
	note, expires, header, env, file string
	hosts                            []string
}

func (m *metadata) flags(f *pflag.FlagSet) {
	f.StringVar(&m.note, "note", "", "a line about it")
	f.StringVar(&m.expires, "expires", "", "how long it holds, such as 12h or 90d, or until when; never takes that back")
	f.StringSliceVar(&m.hosts, "host", nil, "a host that may get it, such as api.github.com:443; can be repeated, and \"\" takes all away")
	f.StringVar(&m.header, "header", "", "the header in which hosts get it (default: Authorization)")
	f.StringVar(&m.env, "env", "", "the variable in which programs get it, or its placeholder if it has hosts")
	f.StringVar(&m.file, "as-file", "", "the name of the file in which programs get it, if it has no hosts")
}

// given reports whether anything is to be set.
func (m *metadata) given(f *pflag.FlagSet) bool {
	return slices.ContainsFunc([]string{"note", "expires", "host", "header", "env", "as-file"}, f.Changed)
}

// apply sets what was given.
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
		Use: "put REF", Short: "Keep a value as the next version of a secret", Args: onlyRef,
		Long: "Keep a value, read from stdin, from --file, or typed at a prompt. It is never an\n" +
			"argument: others could read that in the list of processes. A file is kept byte for\n" +
			"byte, and so is what comes on stdin where the secret is a file (--as-file) or has\n" +
			"several lines; of a single line, the line end is not part of the value. The last 5\n" +
			"versions are kept, and what was said of the secret before stays as it is.\n\n" +
			"A secret with --host travels in one header to these hosts alone, put there by the\n" +
			"gateway: no program and no model sees it.",
		Example: "palyra vault put vault://global/github --host api.github.com:443 < token\n" +
			"palyra vault put vault://user:ann/deploy-key --file ./id_ed25519 --note \"deploys\" --expires 90d",
		ValidArgsFunction: a.complete(),
	}
	c.RunE = a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
		req := &palyrav1.PutSecretRequest{Ref: given[0]}
		if err := m.apply(c.Flags(), req, a); err != nil {
			return err
		}
		var err error
		if req.Value, err = a.value(ctx, file); err != nil {
			return err
		}
		if file == "" && !a.isFile(ctx, g, req) {
			req.Value = withoutLineEnd(req.GetValue())
		}
		if err := checked(req.GetValue()); err != nil {
			return err
		}
		defer clear(req.GetValue())
		return a.send(ctx, g, req)
	})
	m.flags(c.Flags())
	c.Flags().StringVar(&file, "file", "", "read the value from this file, byte for byte")
	_ = c.MarkFlagFilename("file")
	return c
}

// onlyRef refuses a value that somebody gave as an argument, and does not repeat it.
func onlyRef(c *cobra.Command, given []string) error {
	if len(given) > 1 {
		return command.Usage("a value is never an argument: others could read it in the list of processes").
			WithRemedy("Give it on stdin or with --file. Take it out of your shell's history, or replace it, if that was one.")
	}
	return command.Args(1, 1)(c, given)
}

func (a *vaultCommands) edit() *cobra.Command {
	var m metadata
	c := &cobra.Command{
		Use: "edit REF", Short: "Change what is known of a secret, and not its value", Args: command.Args(1, 1),
		Example:           "palyra vault edit vault://global/github --expires 30d\npalyra vault edit vault://global/github --host api.github.com:443 --host uploads.github.com:443",
		ValidArgsFunction: a.complete(),
	}
	c.RunE = a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
		if !m.given(c.Flags()) {
			return command.Usage("nothing is to change").WithRemedy("Name what is, such as --note or --expires; `palyra vault put` is for another value.")
		}
		req := &palyrav1.PutSecretRequest{Ref: given[0]}
		if err := m.apply(c.Flags(), req, a); err != nil {
			return err
		}
		return a.send(ctx, g, req)
	})
	m.flags(c.Flags())
	return c
}

func (a *vaultCommands) send(ctx context.Context, g *client.Gateway, req *palyrav1.PutSecretRequest) error {
	reply, err := g.Vault.PutSecret(ctx, req)
	if err != nil {
		return err
	}
	return a.page(reply.GetSecret())
}

// isFile reports whether programs get the secret as a file, by what is said of it now or was
// said before.
func (a *vaultCommands) isFile(ctx context.Context, g *client.Gateway, req *palyrav1.PutSecretRequest) bool {
	if req.File != nil {
		return req.GetFile() != ""
	}
	// Of a secret that is not there, or that the caller may not see, nothing was said before.
	before, err := g.Vault.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: req.GetRef()})
	return err == nil && before.GetSecret().GetFile() != ""
}

// withoutLineEnd is a value of one line without its line end. One of several lines, such as a
// private key, stays as it is: readers of such files want its last line end.
func withoutLineEnd(value []byte) []byte {
	if bytes.ContainsRune(bytes.TrimRight(value, "\r\n"), '\n') {
		return value
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
}

// value reads the value from a file, from stdin, or from whoever is asked.
func (a *vaultCommands) value(ctx context.Context, file string) ([]byte, error) {
	switch {
	case file != "":
		value, err := command.ReadAtMost(file, vault.MaxValue+1)
		if err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "reading the value: %w", err).WithRemedy("Name a file that you may read.")
		}
		return value, nil
	case !a.InTerminal:
		value, err := io.ReadAll(io.LimitReader(a.In, vault.MaxValue+3)) // what follows is no value whatever is cut off
		if err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "reading the value from stdin: %w", err)
		}
		return value, nil
	case !a.Interactive():
		return nil, command.Usage("there is no value, and nobody to ask for it").WithRemedy("Give it on stdin or with --file.")
	}
	typed, err := a.AskHidden(ctx, "value: ")
	return []byte(typed), err
}

func checked(value []byte) error {
	switch {
	case len(value) == 0:
		return reason.Errorf(reason.InvalidInput, "the value is empty").WithRemedy("Give it on stdin or with --file.")
	case len(value) > vault.MaxValue:
		return reason.Errorf(reason.InputTooLarge, "the value has more than %d bytes", vault.MaxValue).WithRemedy("Keep the data in a file of your own, encrypted, and its key in the vault.")
	}
	return nil
}

func (a *vaultCommands) get() *cobra.Command {
	req, reveal := &palyrav1.RevealSecretRequest{}, false
	c := &cobra.Command{
		Use: "get REF", Short: "Show a secret; its value only with --reveal", Args: command.Args(1, 1),
		Long: "Show a secret without its value, or with --reveal the value and nothing else. Who\n" +
			"was shown a value stands in the journal, and policy may say no. A pipe gets the\n" +
			"value byte for byte; at a terminal a line end follows, and characters that could\n" +
			"change the terminal are shown as such.",
		Example:           "palyra vault get vault://global/github\npalyra vault get --reveal vault://user:ann/deploy-key > id_ed25519",
		ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			if !reveal {
				if req.GetVersion() != 0 {
					return command.Usage("--version is of a value, which is shown with --reveal").WithRemedy("Add --reveal, or see `palyra vault history %s`.", given[0])
				}
				reply, err := g.Vault.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: given[0]})
				if err != nil {
					return err
				}
				return a.page(reply.GetSecret())
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
		a.Say("warning: the value is on your screen now, and in whatever keeps what was on it")
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
