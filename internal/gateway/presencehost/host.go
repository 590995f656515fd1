// Package presencehost is `palyrad presence`: what the gateway's host says of presence
// keys, to the palyrad that runs or to the state directory of one that does not.
package presencehost

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/passkey"
	"palyra/internal/surface/api"
)

// Keys are the presence keys of devices and the passkeys of members, wherever they are
// reached.
type Keys interface {
	Reset(ctx context.Context, device string) (sha256 string, err error)
	Confirm(ctx context.Context, device string) (sha256 string, err error)
	// ConfirmPasskey and RemovePasskey return whose it is.
	ConfirmPasskey(ctx context.Context, id string) (member string, err error)
	RemovePasskey(ctx context.Context, id string) (member string, err error)
}

// Ways lead to the keys.
type Ways struct {
	// Reach calls do with the keys.
	Reach func(ctx context.Context, do func(Keys) error) error
	// Arguments wraps a check of arguments in the way of the program.
	Arguments func(cobra.PositionalArgs) cobra.PositionalArgs
}

// Command is `palyrad presence`.
func Command(w Ways) *cobra.Command {
	group := &cobra.Command{Use: "presence", Short: "Take a presence key or passkey away, or let one count, on the word of this host"}
	group.AddCommand(
		command(w, Keys.Reset, &cobra.Command{
			Use: "reset DEVICE", Short: "Take the presence key from a device whose passphrase is forgotten",
			Long: "Take the presence key from a device whose passphrase is forgotten, while palyrad runs or not. It takes the uid of the state directory: while palyrad runs it goes over the socket there. The device can make another with `palyra key presence`; it counts once somebody with a presence key confirms it, or `palyrad presence confirm`. The journal says so (PAL-I161), and `palyra status` tells the member and the owners for seven days.",
		}, "took the presence key %s from device %s; its member and the owners are told\n"),
		command(w, Keys.Confirm, &cobra.Command{
			Use: "confirm DEVICE", Short: "Let the presence key of a device count that waits to be confirmed",
			Long: "Let the presence key of a device count that waits to be confirmed, while palyrad runs or not, where nobody with a presence key can do it (`palyra key presence --confirm`). It takes the uid of the state directory: while palyrad runs it goes over the socket there. Compare the key with what `palyra key show` says on that device. The journal says so (PAL-I162).",
		}, "the presence key %s of device %s counts\n"),
		passkeys(w),
	)
	return group
}

// passkeys is `palyrad presence passkey`.
func passkeys(w Ways) *cobra.Command {
	group := &cobra.Command{Use: "passkey", Short: "Let a passkey count, or take one away, on the word of this host"}
	group.AddCommand(
		command(w, Keys.ConfirmPasskey, &cobra.Command{
			Use: "confirm ID", Short: "Let a passkey count that waits to be confirmed",
			Long: "Let a passkey count that waits to be confirmed, while palyrad runs or not: a member's first, where agents are connected already, or a later one. It takes the uid of the state directory: while palyrad runs it goes over the socket there. The id is in `palyra status` of the member and in the console: confirm one alone that its member says is theirs. The journal says so (PAL-I164).",
		}, "%s is present by passkey %s from now on\n"),
		command(w, Keys.RemovePasskey, &cobra.Command{
			Use: "remove ID", Short: "Take a passkey away, such as one that is lost",
			Long: "Take a passkey away, such as one that is lost, while palyrad runs or not. It takes the uid of the state directory: while palyrad runs it goes over the socket there. Another one of that member waits to be confirmed. The journal says so (PAL-I165).",
		}, "%s is present no more by passkey %s\n"),
	)
	return group
}

func command(w Ways, act func(Keys, context.Context, string) (string, error), c *cobra.Command, said string) *cobra.Command {
	c.Args = w.Arguments(cobra.ExactArgs(1))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return w.Reach(cmd.Context(), func(keys Keys) error {
			sha256, err := act(keys, cmd.Context(), args[0])
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), said, sha256, args[0])
			}
			return err
		})
	}
	return c
}

// Stored are the keys of a state directory that no palyrad holds.
type Stored struct {
	Service  *identity.Service
	Passkeys Passkeys
}

// Passkeys keeps passkeys.
type Passkeys interface {
	Confirm(ctx context.Context, w passkey.Word, id []byte) (passkey.Passkey, error)
	Remove(ctx context.Context, w passkey.Word, id []byte) (passkey.Passkey, error)
}

// Reset takes a key away.
func (s Stored) Reset(ctx context.Context, device string) (string, error) {
	was, err := s.Service.ResetPresence(ctx, identity.Daemon(), device)
	return was.SHA256(), err
}

// Confirm lets a key count.
func (s Stored) Confirm(ctx context.Context, device string) (string, error) {
	key, err := s.Service.ConfirmPresence(ctx, identity.Daemon(), device, "")
	return key.SHA256(), err
}

// ConfirmPasskey lets a passkey count.
func (s Stored) ConfirmPasskey(ctx context.Context, id string) (string, error) {
	return change(ctx, s.Passkeys.Confirm, id)
}

// RemovePasskey takes a passkey away.
func (s Stored) RemovePasskey(ctx context.Context, id string) (string, error) {
	return change(ctx, s.Passkeys.Remove, id)
}

func change(ctx context.Context, do func(context.Context, passkey.Word, []byte) (passkey.Passkey, error), id string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		return "", reason.Errorf(reason.InvalidInput, "%q is no id of a passkey", id)
	}
	p, err := do(ctx, passkey.Word{By: identity.Daemon(), Host: true}, raw)
	return p.Member.String(), err
}

// Running are the keys of the palyrad that runs, over the local operator's socket.
type Running struct {
	client palyrav1connect.PresenceServiceClient
}

// Over is the palyrad whose socket has a path.
func Over(socket string) Running {
	return Running{palyrav1connect.NewPresenceServiceClient(api.OverSocket(socket))}
}

// Reset takes a key away.
func (r Running) Reset(ctx context.Context, device string) (string, error) {
	res, err := r.client.ResetPresenceKey(ctx, &palyrav1.ResetPresenceKeyRequest{DeviceId: device})
	return res.GetWas().GetSha256(), told(err)
}

// Confirm lets a key count.
func (r Running) Confirm(ctx context.Context, device string) (string, error) {
	res, err := r.client.ConfirmPresenceKey(ctx, &palyrav1.ConfirmPresenceKeyRequest{DeviceId: device})
	return res.GetKey().GetSha256(), told(err)
}

// ConfirmPasskey lets a passkey count.
func (r Running) ConfirmPasskey(ctx context.Context, id string) (string, error) {
	res, err := r.client.ConfirmPasskey(ctx, &palyrav1.ConfirmPasskeyRequest{PasskeyId: id})
	return res.GetPasskey().GetMember(), told(err)
}

// RemovePasskey takes a passkey away.
func (r Running) RemovePasskey(ctx context.Context, id string) (string, error) {
	res, err := r.client.RemovePasskey(ctx, &palyrav1.RemovePasskeyRequest{PasskeyId: id})
	return res.GetPasskey().GetMember(), told(err)
}

// told is an error of the palyrad that runs. Where its socket lets nobody in, it has to
// be stopped.
func told(err error) error {
	if err == nil {
		return nil
	}
	known := api.ReasonOf(err)
	switch reason.Of(known) {
	case reason.Internal, reason.Unauthenticated:
		return reason.Errorf(reason.NotConnected, "palyrad runs, and its socket does not take the word of this host: %w", err).
			WithRemedy("Stop palyrad, repeat this, and start it again.")
	}
	return known
}
