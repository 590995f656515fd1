// Package presencehost implements `palyrad presence`: the operations of the gateway's host on
// presence keys, through the running palyrad or in a stopped gateway's state directory. It also
// sends `palyrad members confirm` to the running palyrad.
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

// Keys manages the presence keys of devices and the passkeys of members, of a running or a stopped
// gateway.
type Keys interface {
	Reset(ctx context.Context, device string) (sha256 string, err error)
	Confirm(ctx context.Context, device string) (sha256 string, err error)
	// ConfirmPasskey and RemovePasskey return the owner of the passkey.
	ConfirmPasskey(ctx context.Context, id string) (member string, err error)
	RemovePasskey(ctx context.Context, id string) (member string, err error)
}

// Ways provide access to the keys.
type Ways struct {
	// Reach calls do with access to the keys.
	Reach func(ctx context.Context, do func(Keys) error) error
	// Arguments wraps an argument check for the program's error format.
	Arguments func(cobra.PositionalArgs) cobra.PositionalArgs
}

// Command is `palyrad presence`.
func Command(w Ways) *cobra.Command {
	group := &cobra.Command{Use: "presence", Short: "Remove or confirm presence keys and passkeys on the gateway's host"}
	group.AddCommand(
		command(w, Keys.Reset, &cobra.Command{
			Use: "reset DEVICE", Short: "Remove the presence key of a device whose passphrase is forgotten",
			Long: "Remove the presence key of a device whose passphrase is forgotten, while palyrad runs or not. It requires the uid of the state directory; while palyrad runs, the request goes over the socket there. The device can create another one with `palyra key presence`; it counts after a member with a presence key, or `palyrad presence confirm`, has confirmed it. The journal records it (PAL-I161), and `palyra status` shows it to the member and the owners for seven days.",
		}, "removed the presence key %s of device %s; its member and the owners are notified\n"),
		command(w, Keys.Confirm, &cobra.Command{
			Use: "confirm DEVICE", Short: "Confirm the pending presence key of a device",
			Long: "Confirm the pending presence key of a device, while palyrad runs or not, if no member with a presence key can do it (`palyra key presence --confirm`). It requires the uid of the state directory; while palyrad runs, the request goes over the socket there. Compare the key with the output of `palyra key show` on that device. The journal records it (PAL-I162).",
		}, "the presence key %s of device %s counts\n"),
		passkeys(w),
	)
	return group
}

// passkeys is `palyrad presence passkey`.
func passkeys(w Ways) *cobra.Command {
	group := &cobra.Command{Use: "passkey", Short: "Confirm or remove passkeys on the gateway's host"}
	group.AddCommand(
		command(w, Keys.ConfirmPasskey, &cobra.Command{
			Use: "confirm ID", Short: "Confirm a pending passkey",
			Long: "Confirm a pending passkey, while palyrad runs or not: a member's first, if agents are connected already, or a later one. It requires the uid of the state directory; while palyrad runs, the request goes over the socket there. The id is in the member's `palyra status` and in the console: confirm it only if its member says that it is theirs. The journal records it (PAL-I164).",
		}, "passkey %[2]s of %[1]s is confirmed\n"),
		command(w, Keys.RemovePasskey, &cobra.Command{
			Use: "remove ID", Short: "Remove a passkey, such as a lost one",
			Long: "Remove a passkey, such as a lost one, while palyrad runs or not. It requires the uid of the state directory; while palyrad runs, the request goes over the socket there. Another passkey of that member must be confirmed. The journal records it (PAL-I165).",
		}, "passkey %[2]s of %[1]s is removed\n"),
	)
	return group
}

func command(w Ways, act func(Keys, context.Context, string) (string, error), c *cobra.Command, format string) *cobra.Command {
	c.Args = w.Arguments(cobra.ExactArgs(1))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return w.Reach(cmd.Context(), func(keys Keys) error {
			sha256, err := act(keys, cmd.Context(), args[0])
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), format, sha256, args[0])
			}
			return err
		})
	}
	return c
}

// Stored manages the keys of a state directory that no palyrad holds.
type Stored struct {
	Keys     *identity.PresenceKeys
	Passkeys Passkeys
}

// Passkeys stores passkeys.
type Passkeys interface {
	Confirm(ctx context.Context, w passkey.Word, id []byte) (passkey.Passkey, error)
	Remove(ctx context.Context, w passkey.Word, id []byte) (passkey.Passkey, error)
}

// Reset removes a key.
func (s Stored) Reset(ctx context.Context, device string) (string, error) {
	was, err := s.Keys.ResetPresence(ctx, identity.Daemon(), device)
	return was.SHA256(), err
}

// Confirm confirms a key, so that it counts.
func (s Stored) Confirm(ctx context.Context, device string) (string, error) {
	key, err := s.Keys.ConfirmPresence(ctx, identity.Daemon(), device, "")
	return key.SHA256(), err
}

// ConfirmPasskey confirms a passkey, so that it counts.
func (s Stored) ConfirmPasskey(ctx context.Context, id string) (string, error) {
	return change(ctx, s.Passkeys.Confirm, id)
}

// RemovePasskey removes a passkey.
func (s Stored) RemovePasskey(ctx context.Context, id string) (string, error) {
	return change(ctx, s.Passkeys.Remove, id)
}

func change(ctx context.Context, do func(context.Context, passkey.Word, []byte) (passkey.Passkey, error), id string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		return "", reason.Errorf(reason.InvalidInput, "%q is not the id of a passkey", id)
	}
	p, err := do(ctx, passkey.Word{By: identity.Daemon(), Host: true}, raw)
	return p.Member.String(), err
}

// Running manages the keys of the running palyrad over the local operator's socket.
type Running struct {
	client palyrav1connect.PresenceServiceClient
}

// Over returns the keys of the palyrad that listens on a socket.
func Over(socket string) Running {
	return Running{palyrav1connect.NewPresenceServiceClient(api.OverSocket(socket))}
}

// Reset removes a key.
func (r Running) Reset(ctx context.Context, device string) (string, error) {
	res, err := r.client.ResetPresenceKey(ctx, &palyrav1.ResetPresenceKeyRequest{DeviceId: device})
	return res.GetWas().GetSha256(), remoteError(err)
}

// Confirm confirms a key, so that it counts.
func (r Running) Confirm(ctx context.Context, device string) (string, error) {
	res, err := r.client.ConfirmPresenceKey(ctx, &palyrav1.ConfirmPresenceKeyRequest{DeviceId: device})
	return res.GetKey().GetSha256(), remoteError(err)
}

// ConfirmPasskey confirms a passkey, so that it counts.
func (r Running) ConfirmPasskey(ctx context.Context, id string) (string, error) {
	res, err := r.client.ConfirmPasskey(ctx, &palyrav1.ConfirmPasskeyRequest{PasskeyId: id})
	return res.GetPasskey().GetMember(), remoteError(err)
}

// RemovePasskey removes a passkey.
func (r Running) RemovePasskey(ctx context.Context, id string) (string, error) {
	res, err := r.client.RemovePasskey(ctx, &palyrav1.RemovePasskeyRequest{PasskeyId: id})
	return res.GetPasskey().GetMember(), remoteError(err)
}

// ConfirmMembers confirms members on behalf of the gateway's host, all members when names is empty.
// It returns the principals of the confirmed members.
func (r Running) ConfirmMembers(ctx context.Context, names []string) ([]string, error) {
	res, err := r.client.ConfirmMembers(ctx, &palyrav1.ConfirmMembersRequest{Members: names})
	return res.GetMembers(), remoteError(err)
}

// remoteError converts an error of the running palyrad. If its socket admits no connection, palyrad must
// be stopped.
func remoteError(err error) error {
	if err == nil {
		return nil
	}
	known := api.ReasonOf(err)
	switch reason.Of(known) {
	case reason.Internal, reason.Unauthenticated:
		return reason.Errorf(reason.NotConnected, "the socket of the running palyrad does not accept this user: %w", err).
			WithRemedy("Stop palyrad, repeat this, and start it again.")
	}
	return known
}
