package people

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/pairing"
)

// joining is one run of `palyra pair`.
type joining struct {
	address, code, secret string
	// pinned is the SHA-256 of the CA in a link; nil for a PIN.
	pinned []byte
	// name is the context's name, dir its bundle, device the name of this machine.
	name, dir, device string
}

// PairCommand is `palyra pair`.
func PairCommand(program *client.App) *cobra.Command {
	a := &pairingCommands{program}
	j := &joining{}
	c := &cobra.Command{
		Use: "pair ADDRESS|LINK", Short: "Get a certificate for this machine, with a pairing code", Args: command.Args(1, 1),
		Long: "Get a certificate for this machine from a gateway, with a code that was created there\n" +
			"with `palyra pairing code`. With an address, the PIN is asked for, or read from standard\n" +
			"input; with the link of a QR code it is not needed. \"-\" reads the link from standard input.\n\n" +
			"This machine then shows six digits and waits. The approver compares them with those\n" +
			"of the approval. The key is created here and stays here; the bundle becomes a context, and\n" +
			"commands use it from then on. If the command is interrupted while it waits, repeat it\n" +
			"to continue.",
		Example: "palyra pair 192.0.2.7:7443\n" +
			"palyra pair 192.0.2.7:7443 --name work\n" +
			"palyra pair 'palyra://pair?address=192.0.2.7:7443&ca=...'",
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := a.target(cmd.Context(), j, given[0]); err != nil {
				return err
			}
			return a.pair(cmd.Context(), j)
		},
	}
	flags := c.Flags()
	flags.StringVar(&j.code, "code", "", "id of the code, if several PINs are open")
	flags.StringVar(&j.name, "name", "", "name of the context (default: the gateway's host)")
	flags.StringVar(&j.dir, "out", "", "directory of the bundle (default: next to the contexts)")
	flags.StringVar(&j.device, "device", "", "name of this machine (default: its host name)")
	_ = c.MarkFlagDirname("out")
	return c
}

// target parses the argument, and determines the directory of the bundle.
func (a *pairingCommands) target(ctx context.Context, j *joining, given string) error {
	if given == "-" {
		line, err := a.Piped(ctx)
		if err != nil {
			return err
		}
		given = strings.TrimSpace(line)
	}
	if j.address = given; pairing.IsLink(given) {
		l, err := pairing.ParseLink(given)
		if err != nil {
			return err
		}
		j.address, j.code, j.secret, j.pinned = l.Address, l.Code, l.Token, l.CA[:]
	}
	host, _, err := net.SplitHostPort(j.address)
	if err != nil || host == "" {
		return command.Usage("address %q: want HOST:PORT", j.address).WithRemedy("For example `palyra pair 192.0.2.7:7443`, as `palyra pairing code` shows it.")
	}
	if j.name == "" {
		j.name = strings.Trim(strings.ToLower(strings.NewReplacer(":", "-", "%", "-").Replace(host)), "-._")
	}
	if j.dir == "" {
		j.dir = filepath.Join(a.Xdg("XDG_CONFIG_HOME", ".config"), "palyra", "gateways", j.name)
	}
	if j.dir, err = filepath.Abs(j.dir); err != nil {
		return err
	}
	// An invalid context name is reported before any prompt.
	c, err := a.Contexts()
	if err != nil {
		return err
	}
	return c.Add(j.name, j.dir)
}

// pair pairs, or continues an interrupted pairing.
func (a *pairingCommands) pair(ctx context.Context, j *joining) error {
	b, pending, err := identity.ReadPending(j.dir)
	if err != nil {
		return a.occupied(j, err)
	}
	if pending {
		a.Say("continuing the interrupted pairing in %s", j.dir)
		key, ok := b.Key.(*ecdsa.PrivateKey)
		if !ok {
			return reason.Errorf(reason.ConfigInvalid, "the key in %s is not a pairing key", j.dir).WithRemedy("Remove the directory and pair again.")
		}
		c, err := pairing.NewCandidate(key)
		if err != nil {
			return err
		}
		return a.collect(ctx, j, c, b)
	}
	c, b, err := a.prove(ctx, j)
	if err != nil {
		return err
	}
	return a.collect(ctx, j, c, b)
}

// occupied returns the error of a directory that is not empty. A kill at the very end leaves a
// complete credential without a context; the remedy shows how to use it.
func (a *pairingCommands) occupied(j *joining, err error) error {
	var full *reason.Error
	if !errors.As(err, &full) || full.Code != reason.AlreadyExists {
		return err
	}
	contexts, failed := a.Contexts()
	if _, unread := identity.ReadBundle(j.dir); failed != nil || unread != nil || slices.Contains(slices.Collect(maps.Values(contexts.Bundles)), j.dir) {
		return err
	}
	return full.WithRemedy("It is a complete credential without a context. To use it: `%s`, then `palyra context use %s`. To pair again, choose another name with --name.",
		text.ShellQuote([]string{"palyra", "context", "add", j.name, j.dir}), j.name)
}

// approach connects, and verifies the server.
func (a *pairingCommands) approach(ctx context.Context, j *joining) (*client.Bare, pairing.Offer, error) {
	bare, err := a.Dialer.Bare(ctx, j.address, nil, "")
	if err != nil {
		return nil, pairing.Offer{}, err
	}
	reply, err := bare.BeginPairing(ctx, &palyrav1.BeginPairingRequest{PairingId: j.code})
	if err == nil {
		o := pairing.Offer{
			Code: reply.GetPairingId(), Kind: pairing.Kind(kindWord(reply.GetKind())), Salt: reply.GetSalt(), DeviceID: reply.GetDeviceId(),
			CA: reply.GetCaCertificate(), ServerName: reply.GetServerName(), ServerKey: reply.GetServerKeySha256(),
		}
		if _, err = pairing.Trust(o, bare.Seen, j.pinned); err == nil {
			return bare, o, nil
		}
	}
	bare.Close()
	return nil, pairing.Offer{}, err
}

// ask prompts for the PIN, once it is known that one is needed.
func (a *pairingCommands) ask(ctx context.Context, j *joining) error {
	bare, o, err := a.approach(ctx, j)
	if err != nil {
		return err
	}
	bare.Close()
	j.code = o.Code
	if o.Kind != pairing.PIN {
		return reason.Errorf(reason.InvalidInput, "the pairing %s has no PIN", o.Code).
			WithRemedy("Specify the whole link of its QR code, or create a PIN with `palyra pairing code --pin`.")
	}
	if a.InTerminal && !a.Interactive() {
		return command.Usage("a PIN is required").WithRemedy("Omit --no-input, or write the PIN to standard input.")
	}
	typed, err := a.AskHidden(ctx, "PIN: ")
	if err != nil {
		return command.Usage("a PIN is required").WithRemedy("Enter it, or write it to standard input.")
	}
	j.secret, err = pairing.TidyPIN(typed)
	return err
}

// prove runs the exchange on one connection. On success the directory contains a bundle without its
// certificate; on failure nothing.
func (a *pairingCommands) prove(ctx context.Context, j *joining) (*pairing.Candidate, identity.Bundle, error) {
	if j.secret == "" {
		if err := a.ask(ctx, j); err != nil {
			return nil, identity.Bundle{}, err
		}
	}
	bare, o, err := a.approach(ctx, j)
	if err != nil {
		return nil, identity.Bundle{}, err
	}
	defer bare.Close()
	signer, err := identity.BundleKey(j.dir)
	if err != nil {
		return nil, identity.Bundle{}, err
	}
	b := identity.Bundle{Key: signer, Address: j.address, ServerName: o.ServerName}
	c, err := a.exchange(ctx, j, bare, o, &b)
	if err != nil {
		if gone := identity.RemovePending(j.dir); gone != nil {
			a.Say("warning: %v", gone)
		}
		return nil, b, err
	}
	return c, b, nil
}

func (a *pairingCommands) exchange(ctx context.Context, j *joining, bare *client.Bare, o pairing.Offer, b *identity.Bundle) (*pairing.Candidate, error) {
	key, ok := b.Key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, reason.Errorf(reason.ConfigInvalid, "the key in %s is not a pairing key", j.dir).WithRemedy("Remove the directory and pair again.")
	}
	c, err := pairing.NewCandidate(key)
	if err != nil {
		return nil, err
	}
	if b.Root, err = pairing.Trust(o, bare.Seen, j.pinned); err != nil {
		return nil, err
	}
	p, err := c.Prove(j.secret, a.deviceName(j), o, bare.Seen)
	if err != nil {
		return nil, err
	}
	reply, err := bare.ProvePairing(ctx, &palyrav1.ProvePairingRequest{
		PairingId: p.Code, Share: p.Share, Commitment: p.Commitment, CertificateRequest: p.Request, DeviceName: p.Name,
	})
	if err != nil {
		return nil, err
	}
	last, err := c.Finish(pairing.Answer{Attempt: reply.GetAttempt(), Share: reply.GetShare(), Confirmation: reply.GetConfirmation()})
	if err != nil {
		return nil, mismatch(o.Kind, int(reply.GetGuessesLeft()))
	}
	// From here on the gateway may have registered this machine. The pending bundle allows another
	// run to continue after a kill.
	if err := identity.WritePending(j.dir, *b); err != nil {
		return nil, err
	}
	_, err = bare.ConfirmPairing(ctx, &palyrav1.ConfirmPairingRequest{Attempt: last.Attempt, Confirmation: last.Confirmation, Nonce: last.Nonce})
	return c, err
}

// mismatch returns the error of a wrong secret or an intercepted connection, which cannot be
// distinguished.
func mismatch(kind pairing.Kind, left int) error {
	if kind == pairing.QR {
		return reason.Errorf(reason.PairingFailed, "the link does not match this gateway, or the connection is intercepted").
			WithRemedy("Create a new code with `palyra pairing code --qr`.")
	}
	if left == 0 {
		return reason.Errorf(reason.PairingFailed, "wrong PIN, and it was the last attempt; or the connection is intercepted").
			WithRemedy("Create another with `palyra pairing code`.")
	}
	return reason.Errorf(reason.PairingFailed, "wrong PIN, or the connection is intercepted; attempts left: %d", left).
		WithRemedy("Run the command again and enter the PIN that `palyra pairing code` printed.")
}

// deviceName returns the displayed name of this machine; "" if it is not valid.
func (a *pairingCommands) deviceName(j *joining) string {
	if j.device != "" {
		return j.device
	}
	name, _ := os.Hostname()
	name, _, _ = strings.Cut(name, ".")
	if len(name) > 63 {
		return ""
	}
	return name
}

// finish completes the bundle, and selects it as the current context.
func (a *pairingCommands) finish(j *joining, b identity.Bundle, reply *palyrav1.CollectPairingResponse) error {
	chain, err := ca.ParseChain([]byte(reply.GetCertificateChain()))
	if err != nil || !identity.FitsChain(b.Key, b.Root, chain) {
		return reason.Errorf(reason.VerificationFailed, "the gateway's certificate does not match this machine's key")
	}
	b.Chain = chain
	if err := identity.WriteBundle(j.dir, b); err != nil {
		return err
	}
	contexts, err := a.Contexts()
	if err != nil {
		return err
	}
	if err := contexts.Add(j.name, j.dir); err != nil {
		return err
	}
	was := contexts.Current
	contexts.Current = j.name
	if err := a.WriteContexts(contexts); err != nil {
		return err
	}
	body := printer.Object{
		{Name: "device", Value: reply.GetDeviceId()}, {Name: "member", Value: reply.GetMember()}, {Name: "address", Value: j.address},
		{Name: "credentials", Value: j.dir}, {Name: "context", Value: j.name},
	}
	return a.PrintOne("PairedDevice", printer.Record{Name: reply.GetDeviceId(), Body: body}, func(p *printer.Page) {
		p.Field("paired", j.address)
		p.Field("as", reply.GetMember())
		p.Field("device", reply.GetDeviceId())
		p.Field("bundle", j.dir)
		p.Field("in use", j.name)
		if was != "" && was != j.name {
			p.Field("before", was+" (back: palyra context use "+was+")")
		}
		p.Field("try", "palyra status")
	})
}
