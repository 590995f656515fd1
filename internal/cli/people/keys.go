package people

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/keptkey"
	"palyra/internal/vault/keyring"
)

// keyCommands provides the commands of this family.
type keyCommands struct{ *client.App }

// KeyCommand is `palyra key`.
func KeyCommand(program *client.App) *cobra.Command {
	a := &keyCommands{program}
	return command.NewGroup("key", "Show and protect the key of your credential", a.show(), a.protect(), a.presence())
}

// bundle returns the credential in use; its key may be locked.
func (a *keyCommands) bundle() (dir string, b identity.Bundle, err error) {
	if dir, err = a.BundleInUse(); err != nil {
		return "", b, err
	}
	if b, err = identity.ReadBundle(dir); err != nil {
		return "", b, err
	}
	if b.Token != "" {
		return "", b, reason.Errorf(reason.InvalidInput, "%s is the bundle of an API token, which has no key", dir).
			WithRemedy("Specify the bundle of a device with --credentials.")
	}
	return dir, b, nil
}

func (a *keyCommands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the location of the key", Args: command.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			dir, b, err := a.bundle()
			if err != nil {
				return err
			}
			return a.print(dir, b)
		},
	}
}

func (a *keyCommands) print(dir string, b identity.Bundle) error {
	place, detail := "file", filepath.Join(dir, "key.pem")
	if b.Kept != nil {
		place, detail = string(b.Kept.Place), b.Kept.Item
	}
	digest := canonical.Digest(b.Chain[0].RawSubjectPublicKeyInfo)
	held, err := identity.PresenceKept(dir)
	if err != nil {
		return err
	}
	presence := ""
	if held != nil {
		presence = canonical.Digest(held.PublicKey)
	}
	body := printer.Object{{Name: "place", Value: place}, {Name: "detail", Value: detail}, {Name: "credentials", Value: dir}, {Name: "key_sha256", Value: digest}, {Name: "presence_sha256", Value: presence}}
	return a.PrintOne("Key", printer.Record{Name: place, Body: body}, func(p *printer.Page) {
		p.Field("place", place)
		if detail != "" {
			p.Field("as", detail)
		}
		p.Field("credential", dir)
		p.Field("digest", digest)
		if held != nil {
			p.Field("presence", presence+", "+string(held.Place))
		}
	})
}

// protection has the flags of `palyra key protect`.
type protection struct{ keyring, passphrase, undo bool }

func (a *keyCommands) protect() *cobra.Command {
	var f protection
	c := &cobra.Command{
		Use: "protect", Short: "Protect the key with the keyring or a passphrase", Args: command.Args(0, 0),
		Long: "Move the private key of the credential in use from its file into the keyring of\n" +
			"your session, or encrypt it with a passphrase that every command then asks for. The\n" +
			"file is removed after the key was read back. For the operator of the gateway's\n" +
			"own host this also disables the socket that requires only the uid.\n\n" +
			"Existing copies and backups of the file still contain the key: replace the credential\n" +
			"first if that matters. If the passphrase or the keyring is lost, `palyrad\n" +
			"operator bundle NAME --revoke-old` on the gateway's host creates another credential.",
		Example: "palyra key protect --keyring\npalyra key protect --passphrase\npalyra key protect --undo",
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, b, err := a.bundle()
			if err != nil {
				return err
			}
			if err := a.move(cmd.Context(), dir, b, f); err != nil {
				return err
			}
			if dir, b, err = a.bundle(); err != nil {
				return err
			}
			return a.print(dir, b)
		},
	}
	c.Flags().BoolVar(&f.keyring, "keyring", false, "in the keyring of this user's session")
	c.Flags().BoolVar(&f.passphrase, "passphrase", false, "encrypted with a passphrase")
	c.Flags().BoolVar(&f.undo, "undo", false, "back into the file")
	c.MarkFlagsOneRequired("keyring", "passphrase", "undo")
	c.MarkFlagsMutuallyExclusive("keyring", "passphrase", "undo")
	return c
}

func (a *keyCommands) move(ctx context.Context, dir string, b identity.Bundle, f protection) error {
	switch {
	case f.undo && b.Kept == nil:
		a.Say("the key is already a file")
		return nil
	case f.undo:
		return a.undo(ctx, dir, b)
	case b.Kept != nil:
		return reason.Errorf(reason.AlreadyExists, "the key is already protected: %s", b.Kept.Place).
			WithRemedy("Undo that first: `palyra key protect --undo`.")
	}
	public, err := x509.MarshalPKIXPublicKey(b.Key.Public())
	if err != nil {
		return fmt.Errorf("protecting the key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(b.Key)
	if err != nil {
		return fmt.Errorf("protecting the key: %w", err)
	}
	if f.keyring {
		return a.intoKeyring(ctx, dir, keptkey.ForKeyring("device key", public), private)
	}
	return a.underPassphrase(ctx, dir, public, private)
}

// intoKeyring moves a key into the keyring, if it can be read back from there.
func (a *keyCommands) intoKeyring(ctx context.Context, dir string, kept *keptkey.Kept, private []byte) error {
	ring := a.Keys.Keyring()
	err := ring.Put(ctx, kept.Item, private)
	if err != nil {
		return err
	}
	back, err := ring.Get(ctx, kept.Item)
	if err == nil {
		_, err = kept.Parse(back)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("reading the key back from the keyring, which stays a file: %w", err), ring.Delete(ctx, kept.Item))
	}
	return identity.Keep(ctx, dir, kept)
}

func (a *keyCommands) underPassphrase(ctx context.Context, dir string, public, private []byte) error {
	kept, err := a.sealed(ctx, "key", public, private)
	if err != nil {
		return err
	}
	return identity.Keep(ctx, dir, kept)
}

// sealed encrypts a key with a passphrase that is entered twice, and verifies the result.
func (a *keyCommands) sealed(ctx context.Context, what string, public, private []byte) (*keptkey.Kept, error) {
	phrase, err := a.Keys.Passphrase(ctx, "new passphrase for the "+what+": ")
	if err != nil {
		return nil, err
	}
	again, err := a.Keys.Passphrase(ctx, "repeat the passphrase: ")
	if err != nil {
		return nil, err
	}
	if phrase != again {
		return nil, reason.Errorf(reason.InvalidInput, "the two passphrases differ").WithRemedy("Try again; nothing was changed.")
	}
	kept, err := keptkey.Seal(phrase, public, private)
	if err != nil {
		return nil, err
	}
	if _, err := kept.Unseal(phrase); err != nil {
		return nil, fmt.Errorf("decrypting the sealed key: %w", err)
	}
	return kept, nil
}

// undo restores the key into its file, and then deletes it in the protected location.
func (a *keyCommands) undo(ctx context.Context, dir string, b identity.Bundle) error {
	kept := b.Kept
	b, err := a.Keys.Unlocked(ctx, b)
	if err != nil {
		return err
	}
	if err := identity.Unkeep(ctx, dir, b.Key); err != nil {
		return err
	}
	if kept.Place != keptkey.InKeyring {
		return nil
	}
	if err := a.Keys.Keyring().Delete(ctx, kept.Item); err != nil && !errors.Is(err, keyring.ErrNotFound) {
		a.Say("the key is a file again; its item %q is still in the keyring: %v", kept.Item, err)
	}
	return nil
}
