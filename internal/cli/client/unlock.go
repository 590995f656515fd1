package client

import (
	"context"
	"crypto"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/keptkey"
	"palyra/internal/vault/keyring"
)

// unlockTime is the timeout for a user to unlock a keyring.
const unlockTime = 2 * time.Minute

// Keyring returns the keyring of this user's session.
func (a *App) Keyring() keyring.Keyring { return keyring.Session(a.Getenv) }

// Unlocked returns the bundle with its key, which is fetched from its protected location.
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
			WithRemedy("Use the session with that keyring. If it is lost: stop palyrad, run `palyrad operator bundle NAME --revoke-old` on its host, and start it again.")
	}
	if err != nil {
		return nil, err
	}
	return kept.Parse(private)
}

// Passphrase prompts for a passphrase at the terminal without echo.
func (a *App) Passphrase(ctx context.Context, question string) (string, error) {
	if !a.Interactive() {
		return "", reason.Errorf(reason.NotConnected, "the key has a passphrase, and without a terminal it cannot be prompted for").
			WithRemedy("Run the command in a terminal, without --no-input; for programs, create a separate credential (`palyra tokens create`).")
	}
	return a.AskHidden(ctx, question)
}

// renewedKept renews the certificate of a protected key for the same key, because a new key would
// have to be protected again. While the certificate is valid, a failed renewal is not an error.
func (a *App) renewedKept(ctx context.Context, dir string, b identity.Bundle, address string) (identity.Bundle, error) {
	fresh, err := a.certifyAgain(ctx, b, address)
	if err == nil {
		err = identity.WriteBundle(dir, fresh)
	}
	switch {
	case err == nil:
		return fresh, nil
	case a.Now().Before(b.NotAfter()):
		a.Say("renewing the certificate in %s failed (it expires %s): %v", dir, b.NotAfter().UTC().Format(time.RFC3339), err)
		return b, nil
	}
	return b, fmt.Errorf("renewing the expired certificate in %s: %w", dir, err)
}

// certifyAgain returns the bundle with a new certificate of its key.
func (a *App) certifyAgain(ctx context.Context, b identity.Bundle, address string) (identity.Bundle, error) {
	request, err := identity.Request(b.Key)
	if err != nil {
		return b, err
	}
	block, _ := pem.Decode(request)
	reply, err := a.dial(b, address, nil).Identity.RenewCertificate(ctx, &palyrav1.RenewCertificateRequest{CertificateRequest: block.Bytes})
	if err != nil {
		return b, err
	}
	if b.Chain, err = ca.ParseChain([]byte(reply.GetCertificateChain())); err != nil {
		return b, reason.Errorf(reason.VerificationFailed, "the gateway's new certificate does not parse: %w", err)
	}
	return b, nil
}
