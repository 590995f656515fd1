package people

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
)

// loginCommands provides the commands of this family.
type loginCommands struct{ *client.App }

// options are the flags of palyra login.
type options struct {
	device            bool
	name, fingerprint string
}

// LoginCommand is `palyra login`.
func LoginCommand(program *client.App) *cobra.Command {
	a, o := &loginCommands{program}, &options{}
	c := &cobra.Command{
		Use: "login [HOST:PORT|CONTEXT]", Short: "Log in at the identity provider of a gateway", Args: command.Args(0, 1),
		Long: "Log in at the identity provider of a gateway, in a browser on this machine, or with\n" +
			"--device on any other. The session's credential becomes a context, which is used from\n" +
			"then on. It expires after some hours and is not renewed: log in again.\n\n" +
			"For a gateway without a context the fingerprint of its CA is shown first. Compare it\n" +
			"with the one from its administrator, or specify that with --ca-fingerprint.",
		Example: "palyra login gateway.example.com:7443\npalyra login work\npalyra login --device",
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.login(cmd.Context(), o, strings.Join(given, ""))
		},
	}
	flags := c.Flags()
	flags.BoolVar(&o.device, "device", false, "confirm on another device instead of a browser here")
	flags.StringVar(&o.name, "name", "", "the name of the context (default: the name of the gateway)")
	flags.StringVar(&o.fingerprint, "ca-fingerprint", "", "the gateway's CA, as sha256:HEX, instead of a question")
	return c
}

// LogoutCommand is `palyra logout`.
func LogoutCommand(program *client.App) *cobra.Command {
	a := &loginCommands{program}
	return &cobra.Command{
		Use: "logout", Short: "End the session of palyra login, and delete its credential", Args: command.Args(0, 0),
		Long: "End the session of palyra login with its open streams, and delete its credential.\n" +
			"Approvals of the session stay valid.",
		Example: "palyra logout\npalyra --context work logout",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.logout(cmd.Context()) },
	}
}

// attempt is one login in progress.
type attempt struct {
	gateway palyrav1connect.LoginServiceClient
	key     *ecdsa.PrivateKey
	request []byte // PKCS #10, DER
}

func (a *loginCommands) login(ctx context.Context, o *options, at string) error {
	t, err := a.target(ctx, o, at)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	request, err := identity.Request(key)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(request)
	try := attempt{gateway: a.Dialer.Stranger(t.Known), key: key, request: block.Bytes}
	finish := a.inBrowser
	if o.device {
		finish = a.onDevice
	}
	session, err := finish(ctx, try)
	if err != nil {
		return err
	}
	return a.keep(t, key, session)
}

// keep stores the session's bundle and selects it.
func (a *loginCommands) keep(t target, key *ecdsa.PrivateKey, s *palyrav1.LoginSession) error {
	chain, err := ca.ParseChain([]byte(s.GetCertificateChain()))
	if err != nil {
		return reason.Errorf(reason.VerificationFailed, "the gateway's certificate does not parse: %w", err)
	}
	b := identity.Bundle{Root: t.Root, Chain: chain, Key: key, Address: t.Address, ServerName: t.ServerName}
	if err := identity.WriteLogin(t.dir, b); err != nil {
		return err
	}
	if _, err := identity.ReadBundle(t.dir); err != nil {
		return errors.Join(reason.Errorf(reason.VerificationFailed, "the gateway's certificate does not match this login: %w", err), os.RemoveAll(t.dir))
	}
	c, err := a.Contexts()
	if err != nil {
		return err
	}
	if err := c.Add(t.name, t.dir); err != nil {
		return err
	}
	c.Current = t.name
	if err := a.WriteContexts(c); err != nil {
		return err
	}
	s.CertificateChain, s.CaCertificate = "", "" // they are in the bundle
	body := append(printer.ProtoObject(s), printer.Member{Name: "context", Value: t.name}, printer.Member{Name: "credentials", Value: t.dir})
	return a.PrintOne("Login", printer.Record{Name: s.GetPrincipal(), Body: body}, func(p *printer.Page) {
		p.Field("logged in", s.GetPrincipal())
		p.Field("roles", strings.Join(s.GetRoles(), ", "))
		p.Field("gateway", t.Address)
		p.Field("context", t.name+", in use from now on")
		p.Field("ends", a.Moment(s.GetEndsAt()))
	})
}

func (a *loginCommands) logout(ctx context.Context) error {
	dir, err := a.BundleInUse()
	if err != nil {
		return err
	}
	if !identity.IsLogin(dir) {
		return command.Usage("the credential in use is not of a login: %s", dir).
			WithRemedy("Specify the context of a login with --context; see `palyra context list`.")
	}
	if err := a.tell(ctx); err != nil {
		return err
	}
	c, err := a.Contexts()
	if err != nil {
		return err
	}
	for name, bundle := range c.Bundles {
		if filepath.Clean(bundle) == filepath.Clean(dir) {
			delete(c.Bundles, name)
			if c.Current == name {
				c.Current = ""
			}
		}
	}
	if err := errors.Join(a.WriteContexts(c), os.RemoveAll(dir)); err != nil {
		return err
	}
	a.Say("logged out")
	return nil
}

// tell ends the session at the gateway. Neither an ended session nor an unreachable gateway is
// an error, because the session expires and its key is deleted.
func (a *loginCommands) tell(ctx context.Context) error {
	g, err := a.Connect(ctx)
	if err == nil {
		_, err = g.Logins.EndLogin(ctx, &palyrav1.EndLoginRequest{})
	}
	if err == nil {
		return nil
	}
	why := client.Explain(nil, err)
	switch why.Code {
	case reason.CertificateExpired, reason.Unauthenticated, reason.NotFound:
		return nil
	case reason.NotConnected:
		a.Say("ending the session at the gateway failed (%s); it expires by itself, and its key was removed here", why.Message)
		return nil
	}
	return err
}
