package clitest

import (
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

// SecretRef is the one readable secret, and SecretValue its value.
const (
	SecretRef   = "vault://global/github" //nolint:gosec // a name, and no value
	SecretValue = "gh-" + "0123456789abcdef"
)

// KEK is the id of the vault's key.
const KEK = "kek_0000000000000001"

func someSecret() *palyrav1.Secret {
	return &palyrav1.Secret{
		Ref: SecretRef, Version: 2, CreatedAt: ago(48 * time.Hour), UpdatedAt: ago(time.Hour),
		LastUsedAt: ago(time.Minute), ExpiresAt: ago(-30 * 24 * time.Hour), Note: "deploys",
		Hosts: []string{"api.github.com:443"}, Header: "Authorization", Env: "GITHUB_TOKEN",
		Versions: []*palyrav1.SecretVersion{
			{Version: 1, CreatedAt: ago(48 * time.Hour), CreatedBy: "user:ada"},
			{Version: 2, CreatedAt: ago(time.Hour), CreatedBy: "user:bob"},
		},
	}
}

func serveVault(f *Gateway) {
	put := someSecret()
	put.Version, put.LastUsedAt = 3, nil
	f.reply(
		&palyrav1.PutSecretResponse{Secret: put},
		&palyrav1.ListSecretsResponse{Secrets: []*palyrav1.Secret{
			someSecret(), {Ref: "vault://user:ada/smtp", Problem: string(reason.SecretUnreadable)},
			{Ref: "vault://agent:helper/api", Version: 1, Holder: "user:bob", Ended: "The secret ended. Store your own value."},
		}},
		&palyrav1.RekeyVaultResponse{KeyId: "kek_0000000000000002", DroppedKeyIds: []string{KEK}, Rewrapped: 12},
		&palyrav1.ExportRecoveryResponse{Export: "-----BEGIN AGE ENCRYPTED FILE-----\n", KeyIds: []string{KEK}},
	)
	f.replyAbout(SecretRef, "the secret %s does not exist",
		&palyrav1.GetSecretResponse{Secret: someSecret()},
		&palyrav1.RevealSecretResponse{Value: []byte(SecretValue), Secret: someSecret()},
		&palyrav1.RemoveSecretResponse{},
	)
	edit(f, func(req *palyrav1.PutSecretRequest, res *palyrav1.PutSecretResponse) { res.Secret.Ref = req.GetRef() })
	on(f, func(req *palyrav1.UnlockVaultRequest) (*palyrav1.UnlockVaultResponse, error) {
		if string(req.GetPassphrase()) != "open sesame" {
			return nil, reason.Errorf(reason.InvalidInput, "the passphrase is wrong")
		}
		f.VaultLocked = false
		return &palyrav1.UnlockVaultResponse{}, nil
	})
	on(f, func(*palyrav1.GetVaultStatusRequest) (*palyrav1.GetVaultStatusResponse, error) {
		if f.VaultLocked {
			return &palyrav1.GetVaultStatusResponse{Place: "file", Locked: true, Problem: "the key is under a passphrase"}, nil
		}
		return &palyrav1.GetVaultStatusResponse{
			Place: "file", KeyId: KEK, ExportedAt: ago(24 * time.Hour),
			Leases: []*palyrav1.SecretLease{{
				LeaseId: "01LEASE0000000000000000000", Ref: SecretRef, Version: 2, Principal: "agent:claude", RunId: "01RUN000000000000000000000",
				LeasedAt: ago(time.Minute), EndsAt: ago(-time.Minute), Uses: 1,
			}},
		}, nil
	})
}
