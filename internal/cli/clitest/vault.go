package clitest

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

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

type fakeVault struct{ f *Gateway }

func someSecret() *palyrav1.Secret {
	return &palyrav1.Secret{
		Ref: SecretRef, Version: 2, CreatedAt: timestamppb.New(Now.Add(-48 * time.Hour)), UpdatedAt: timestamppb.New(Now.Add(-time.Hour)),
		LastUsedAt: timestamppb.New(Now.Add(-time.Minute)), ExpiresAt: timestamppb.New(Now.Add(30 * 24 * time.Hour)), Note: "deploys",
		Hosts: []string{"api.github.com:443"}, Header: "Authorization", Env: "GITHUB_TOKEN",
		Versions: []*palyrav1.SecretVersion{
			{Version: 1, CreatedAt: timestamppb.New(Now.Add(-48 * time.Hour)), CreatedBy: "user:ada"},
			{Version: 2, CreatedAt: timestamppb.New(Now.Add(-time.Hour)), CreatedBy: "user:bob"},
		},
	}
}

func noSecret(ref string) error {
	if "vault://"+strings.TrimPrefix(ref, "vault://") == SecretRef {
		return nil
	}
	return GatewayError(connect.CodeNotFound, reason.NotFound, "the secret "+ref+" does not exist", nil)
}

func (s fakeVault) PutSecret(_ context.Context, req *palyrav1.PutSecretRequest) (*palyrav1.PutSecretResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.PutSecrets = append(s.f.PutSecrets, req)
	put := someSecret()
	put.Ref, put.Version, put.LastUsedAt = req.GetRef(), 3, nil
	return &palyrav1.PutSecretResponse{Secret: put}, nil
}

func (s fakeVault) GetSecret(_ context.Context, req *palyrav1.GetSecretRequest) (*palyrav1.GetSecretResponse, error) {
	return &palyrav1.GetSecretResponse{Secret: someSecret()}, noSecret(req.GetRef())
}

func (s fakeVault) RevealSecret(_ context.Context, req *palyrav1.RevealSecretRequest) (*palyrav1.RevealSecretResponse, error) {
	return &palyrav1.RevealSecretResponse{Value: []byte(SecretValue), Secret: someSecret()}, noSecret(req.GetRef())
}

func (s fakeVault) ListSecrets(context.Context, *palyrav1.ListSecretsRequest) (*palyrav1.ListSecretsResponse, error) {
	return &palyrav1.ListSecretsResponse{Secrets: []*palyrav1.Secret{
		someSecret(), {Ref: "vault://user:ada/smtp", Problem: string(reason.SecretUnreadable)},
		{Ref: "vault://agent:helper/api", Version: 1, Holder: "user:bob", Ended: "The secret ended. Store your own value."},
	}}, nil
}

func (s fakeVault) RemoveSecret(_ context.Context, req *palyrav1.RemoveSecretRequest) (*palyrav1.RemoveSecretResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.RemovedSecrets = append(s.f.RemovedSecrets, req.GetRef())
	return &palyrav1.RemoveSecretResponse{}, noSecret(req.GetRef())
}

func (s fakeVault) RekeyVault(context.Context, *palyrav1.RekeyVaultRequest) (*palyrav1.RekeyVaultResponse, error) {
	return &palyrav1.RekeyVaultResponse{KeyId: "kek_0000000000000002", DroppedKeyIds: []string{KEK}, Rewrapped: 12}, nil
}

func (s fakeVault) ExportRecovery(context.Context, *palyrav1.ExportRecoveryRequest) (*palyrav1.ExportRecoveryResponse, error) {
	return &palyrav1.ExportRecoveryResponse{Export: "-----BEGIN AGE ENCRYPTED FILE-----\n", KeyIds: []string{KEK}}, nil
}

func (s fakeVault) UnlockVault(_ context.Context, req *palyrav1.UnlockVaultRequest) (*palyrav1.UnlockVaultResponse, error) {
	if string(req.GetPassphrase()) != "open sesame" {
		return nil, GatewayError(connect.CodeInvalidArgument, reason.InvalidInput, "the passphrase is wrong", nil)
	}
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.VaultLocked = false
	return &palyrav1.UnlockVaultResponse{}, nil
}

func (s fakeVault) GetVaultStatus(context.Context, *palyrav1.GetVaultStatusRequest) (*palyrav1.GetVaultStatusResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	if s.f.VaultLocked {
		return &palyrav1.GetVaultStatusResponse{Place: "file", Locked: true, Problem: "the key is under a passphrase"}, nil
	}
	return &palyrav1.GetVaultStatusResponse{
		Place: "file", KeyId: KEK, ExportedAt: timestamppb.New(Now.Add(-24 * time.Hour)),
		Leases: []*palyrav1.SecretLease{{
			LeaseId: "01LEASE0000000000000000000", Ref: SecretRef, Version: 2, Principal: "agent:claude", RunId: "01RUN000000000000000000000",
			LeasedAt: timestamppb.New(Now.Add(-time.Minute)), EndsAt: timestamppb.New(Now.Add(time.Minute)), Uses: 1,
		}},
	}, nil
}
