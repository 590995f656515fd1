package things

import (
	"context"
	"fmt"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/vault"
)

// Judge evaluates the policies in force.
type Judge struct{ Engine *policy.Engine }

var _ vault.Judge = Judge{}

// Permit implements vault.Judge.
func (j Judge) Permit(b vault.Borrower, p access.Permission, ref vault.Ref) error {
	r := policy.AccessRequest{Caller: b.Caller, Permission: p, Skill: b.Skill}
	if ref != (vault.Ref{}) {
		r.Resource = ref.Name()
	}
	return j.Engine.Current().Access().Permit(r)
}

// SecretService implements the VaultService of the API. All fields are required.
type SecretService struct {
	Vault *vault.Service
	// Caller returns the caller of a request.
	Caller func(context.Context) access.Caller
}

// defaultPage is the default page size.
const defaultPage = 50

// PutSecret stores the value or the metadata of a secret.
func (s *SecretService) PutSecret(ctx context.Context, req *palyrav1.PutSecretRequest) (*palyrav1.PutSecretResponse, error) {
	ref, err := vault.ParseRef(req.GetRef())
	if err != nil {
		return nil, err
	}
	defer clear(req.GetValue())
	set := vault.Metadata{Note: req.Note, Header: req.Header, Env: req.Env, File: req.File}
	if hosts := req.GetHosts(); hosts != nil {
		list := hosts.GetHosts()
		set.Hosts = &list
	}
	if at := req.GetExpiresAt(); at != nil || req.GetNeverExpires() {
		var end time.Time
		if !req.GetNeverExpires() {
			end = at.AsTime()
		}
		set.Expires = &end
	}
	if env := req.GetEnv(); env != "" {
		if err := command.CheckEnv([]string{env + "="}); err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "the variable of %s: %w", ref, err).WithRemedy("Name a variable that programs read a credential from, such as GITHUB_TOKEN.")
		}
	}
	// An absent value is nil, an empty one is not.
	m, err := s.Vault.Put(ctx, s.Caller(ctx), ref, req.Value, set)
	if err != nil {
		return nil, err
	}
	return &palyrav1.PutSecretResponse{Secret: secretMessage(m)}, nil
}

// GetSecret returns the metadata of a secret.
func (s *SecretService) GetSecret(ctx context.Context, req *palyrav1.GetSecretRequest) (*palyrav1.GetSecretResponse, error) {
	ref, err := vault.ParseRef(req.GetRef())
	if err != nil {
		return nil, err
	}
	m, err := s.Vault.Get(ctx, s.Caller(ctx), ref)
	if err != nil {
		return nil, err
	}
	return &palyrav1.GetSecretResponse{Secret: secretMessage(m)}, nil
}

// RevealSecret returns the value of a secret.
func (s *SecretService) RevealSecret(ctx context.Context, req *palyrav1.RevealSecretRequest) (*palyrav1.RevealSecretResponse, error) {
	ref, err := vault.ParseRef(req.GetRef())
	if err != nil {
		return nil, err
	}
	value, m, err := s.Vault.Reveal(ctx, s.Caller(ctx), ref, int(req.GetVersion()))
	if err != nil {
		return nil, err
	}
	return &palyrav1.RevealSecretResponse{Value: value, Secret: secretMessage(m)}, nil
}

// ListSecrets lists secrets.
func (s *SecretService) ListSecrets(ctx context.Context, req *palyrav1.ListSecretsRequest) (*palyrav1.ListSecretsResponse, error) {
	p := vault.Page{Scope: req.GetScope(), Limit: int(req.GetPageSize())}
	if p.Limit == 0 {
		p.Limit = defaultPage
	}
	if token := req.GetPageToken(); token != "" {
		var err error
		if p.After, err = vault.ParseRef(token); err != nil {
			return nil, err
		}
	}
	list, err := s.Vault.List(ctx, s.Caller(ctx), p)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListSecretsResponse{}
	for _, m := range list {
		res.Secrets = append(res.Secrets, secretMessage(m))
	}
	if len(list) == p.Limit {
		res.NextPageToken = list[p.Limit-1].Ref.Name()
	}
	return res, nil
}

// RemoveSecret removes a secret.
func (s *SecretService) RemoveSecret(ctx context.Context, req *palyrav1.RemoveSecretRequest) (*palyrav1.RemoveSecretResponse, error) {
	ref, err := vault.ParseRef(req.GetRef())
	if err != nil {
		return nil, err
	}
	return &palyrav1.RemoveSecretResponse{}, s.Vault.Remove(ctx, s.Caller(ctx), ref)
}

// RekeyVault replaces the key that wraps all data keys.
func (s *SecretService) RekeyVault(ctx context.Context, _ *palyrav1.RekeyVaultRequest) (*palyrav1.RekeyVaultResponse, error) {
	done, err := s.Vault.Keys.Rekey(ctx, s.Caller(ctx))
	if err != nil {
		return nil, err
	}
	res := &palyrav1.RekeyVaultResponse{KeyId: done.Key, DroppedKeyIds: done.Dropped, Rewrapped: int32(done.Rewrapped)} //#nosec G115 -- as many as there are rows
	for _, about := range done.Unreadable {
		res.Unreadable = append(res.Unreadable, spoken(about))
	}
	return res, nil
}

// spoken describes the owner of a data key for display.
func spoken(about string) string {
	ref, version, err := vault.ParseAbout(about)
	if err != nil {
		return fmt.Sprintf("%q", about)
	}
	return fmt.Sprintf("%s version %d", ref, version)
}

// ExportRecovery returns the encrypted recovery export of the keys.
func (s *SecretService) ExportRecovery(ctx context.Context, req *palyrav1.ExportRecoveryRequest) (*palyrav1.ExportRecoveryResponse, error) {
	text, ids, err := s.Vault.Keys.ExportRecovery(ctx, s.Caller(ctx), req.GetRecipient(), req.GetAgain())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ExportRecoveryResponse{Export: text, KeyIds: ids}, nil
}

// UnlockVault unlocks the keys.
func (s *SecretService) UnlockVault(ctx context.Context, req *palyrav1.UnlockVaultRequest) (*palyrav1.UnlockVaultResponse, error) {
	defer clear(req.GetPassphrase())
	return &palyrav1.UnlockVaultResponse{}, s.Vault.Keys.Unlock(ctx, s.Caller(ctx), req.GetPassphrase())
}

// GetVaultStatus returns the state of the vault.
func (s *SecretService) GetVaultStatus(ctx context.Context, _ *palyrav1.GetVaultStatusRequest) (*palyrav1.GetVaultStatusResponse, error) {
	st, err := s.Vault.Status(ctx, s.Caller(ctx))
	if err != nil {
		return nil, err
	}
	res := &palyrav1.GetVaultStatusResponse{
		Place: st.Keys.Backend, Locked: st.Keys.Locked, KeyId: st.Keys.ID, OldKeyIds: st.Old, ExportedAt: moment(st.ExportedAt),
	}
	if st.Keys.Locked {
		res.Problem = st.Keys.Why
	}
	for _, l := range st.Leases {
		res.Leases = append(res.Leases, &palyrav1.SecretLease{
			LeaseId: l.ID, Ref: l.Ref.String(), Version: int32(l.Version), Principal: l.Holder.String(), CallId: l.Call, RunId: l.Run, //#nosec G115 -- counted from 1 by puts
			LeasedAt: moment(l.At), EndsAt: moment(l.Until), Uses: int32(l.Uses), //#nosec G115 -- within a day
		})
	}
	return res, nil
}

func secretMessage(m vault.Secret) *palyrav1.Secret {
	if m.Unreadable != nil {
		return &palyrav1.Secret{Ref: m.Ref.String(), Problem: string(m.Unreadable.Code)}
	}
	out := &palyrav1.Secret{
		Ref: m.Ref.String(), Version: int32(m.Version), CreatedAt: moment(m.CreatedAt), UpdatedAt: moment(m.UpdatedAt), LastUsedAt: moment(m.LastUsed), //#nosec G115 -- counted from 1 by puts
		ExpiresAt: moment(m.ExpiresAt), Note: m.Note, Hosts: m.Hosts, Header: m.Header, Env: m.Env, File: m.File, Holder: m.Holder,
	}
	if m.Ended != nil {
		out.Ended = m.Ended.Message + ". " + m.Ended.NextStep()
	}
	for _, p := range m.Versions {
		out.Versions = append(out.Versions, &palyrav1.SecretVersion{Version: int32(p.Version), CreatedAt: moment(p.At), CreatedBy: p.By.String()}) //#nosec G115 -- counted from 1 by puts
	}
	return out
}
