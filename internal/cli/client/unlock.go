package client

import (
	"context"
	"crypto"
	"errors"
	"time"

	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/keptkey"
	"palyra/internal/vault/keyring"
)

// unlockTime is the timeout for a user to unlock a keyring.
const unlockTime = 2 * time.Minute

// Keys unlocks the protected keys of credential bundles.
type Keys struct {
	out     *printer.Printer
	prompts *printer.Prompter
}

// Keyring returns the keyring of this user's session.
func (k Keys) Keyring() keyring.Keyring { return keyring.Session(k.out.Getenv) }

// Unlocked returns the bundle with its key, which is fetched from its protected location.
func (k Keys) Unlocked(ctx context.Context, b identity.Bundle) (identity.Bundle, error) {
	if b.Kept == nil {
		return b, nil
	}
	key, err := k.unlock(ctx, b.Kept)
	if err == nil {
		b.Key = key
	}
	return b, err
}

func (k Keys) unlock(ctx context.Context, kept *keptkey.Kept) (crypto.Signer, error) {
	if kept.Place == keptkey.ByPassphrase {
		phrase, err := k.Passphrase(ctx, "passphrase of the key: ")
		if err != nil {
			return nil, err
		}
		return kept.Unseal(phrase)
	}
	ctx, cancel := context.WithTimeout(ctx, unlockTime)
	defer cancel()
	private, err := k.Keyring().Get(ctx, kept.Item)
	if errors.Is(err, keyring.ErrNotFound) {
		return nil, reason.Errorf(reason.NotConnected, "the keyring of this session does not have the key %q", kept.Item).
			WithRemedy("Use the session with that keyring. If it is lost: stop palyrad, run `palyrad operator bundle NAME --revoke-old` on its host, and start it again.")
	}
	if err != nil {
		return nil, err
	}
	return kept.Parse(private)
}

// Passphrase prompts for a passphrase at the terminal without echo.
func (k Keys) Passphrase(ctx context.Context, question string) (string, error) {
	if !k.prompts.Interactive() {
		return "", reason.Errorf(reason.NotConnected, "the key has a passphrase, and without a terminal it cannot be prompted for").
			WithRemedy("Run the command in a terminal, without --no-input; for programs, create a separate credential (`palyra tokens create`).")
	}
	return k.prompts.AskHidden(ctx, question)
}
