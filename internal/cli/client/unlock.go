package client

import (
	"context"
	"crypto"
	"errors"
	"time"

	"palyra/internal/identity"
	"palyra/internal/identity/keptkey"
	"palyra/internal/keyring"
	"palyra/internal/reason"
)

// unlockTime is how long somebody may take to unlock a keyring that asks them.
const unlockTime = 2 * time.Minute

// Keyring is that of this user's session.
func (a *App) Keyring() keyring.Keyring { return keyring.Session(a.Getenv) }

// Unlocked returns the bundle with its key, which is fetched from where it is kept.
func (a *App) Unlocked(ctx context.Context, b identity.Bundle) (identity.Bundle, error) {
	if b.Kept == nil {
		return b, nil
	}
	key, err := a.unlock(ctx, b.Kept)
	if err == nil {
		b.Key = key
	}
	return b, err
}

func (a *App) unlock(ctx context.Context, kept *keptkey.Kept) (crypto.Signer, error) {
	if kept.Place == keptkey.ByPassphrase {
		phrase, err := a.Passphrase(ctx, "passphrase of the key: ")
		if err != nil {
			return nil, err
		}
		return kept.Unseal(phrase)
	}
	ctx, cancel := context.WithTimeout(ctx, unlockTime)
	defer cancel()
	private, err := a.Keyring().Get(ctx, kept.Item)
	if errors.Is(err, keyring.ErrNotFound) {
		return nil, reason.Errorf(reason.NotConnected, "the keyring of this session does not have the key %q", kept.Item).
			WithRemedy("Use the session whose keyring has it. If it is lost: stop palyrad, run `palyrad operator bundle NAME --revoke-old` on its host, and start it again.")
	}
	if err != nil {
		return nil, err
	}
	return kept.Parse(private)
}

// Passphrase asks for a passphrase at the terminal, without showing it.
func (a *App) Passphrase(ctx context.Context, question string) (string, error) {
	if !a.Interactive() {
		return "", reason.Errorf(reason.NotConnected, "the key is under a passphrase, and there is no terminal to ask for it").
			WithRemedy("Run the command in a terminal, without --no-input; programs use a credential of their own (`palyra tokens create`).")
	}
	return a.AskHidden(ctx, question)
}
