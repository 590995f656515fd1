package api_test

import (
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/token"
	"palyra/internal/store/sqlite"
	"palyra/internal/vault"
)

func (c *client) vault() palyrav1connect.VaultServiceClient {
	return palyrav1connect.NewVaultServiceClient(c.http, c.w.url)
}

// TestSecretAccessByScope tries every method on secrets of every scope as every member. A caller
// without permission receives the same answer whether or not the secret exists.
func TestSecretAccessByScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.admit(access.User("carol"), access.Principal{}, access.RoleAdmin)
	ctx := t.Context()
	people := map[string]*client{"owner": w.alice, "operator": w.bob, "developer": w.dan, "auditor": w.eve, "agent": w.coder}
	for _, c := range []struct {
		scope string
		// put, see, read and remove list the roles with the permission.
		put, see, read, remove string
	}{
		{"global", "owner", "owner", "owner", "owner"},
		{"user:alice", "owner", "owner", "owner", "owner"},
		{"user:dan", "developer", "owner developer", "developer", "owner developer"},
		{"user:eve", "auditor", "owner auditor", "auditor", "owner auditor"},
		// coder is an agent of alice; the other agent does not exist.
		{"agent:coder", "owner", "owner", "owner", "owner"},
		{"agent:other", "owner", "owner", "owner", "owner"},
		{"skill:deploy", "owner", "owner", "owner", "owner"},
	} {
		for role, who := range people {
			ref := "vault://" + c.scope + "/" + role
			for what, try := range map[string]struct {
				may string
				do  func() error
			}{
				"1 put": {c.put, func() error {
					_, err := who.vault().PutSecret(ctx, &palyrav1.PutSecretRequest{Ref: ref, Value: []byte("value of " + role)})
					return err
				}},
				"2 get": {c.see, func() error {
					_, err := who.vault().GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: ref})
					return err
				}},
				"3 reveal": {c.read, func() error {
					_, err := who.vault().RevealSecret(ctx, &palyrav1.RevealSecretRequest{Ref: ref})
					return err
				}},
				"4 remove": {c.remove, func() error {
					_, err := who.vault().RemoveSecret(ctx, &palyrav1.RemoveSecretRequest{Ref: ref})
					return err
				}},
			} {
				// The secret exists, whichever member put it.
				seed(t, w, ref)
				err := try.do()
				if may := strings.Contains(" "+try.may+" ", " "+role+" "); may && err != nil {
					t.Errorf("%s of %s as the %s: %v", what, ref, role, err)
				} else if !may {
					wantError(t, what+" of "+ref+" as the "+role, err, reason.PermissionDenied)
				}
			}
		}
	}
}

// seed puts a secret without asking policy.
func seed(t *testing.T, w *world, ref string) {
	t.Helper()
	s := must.Get(vault.New(vault.Config{Store: sqlite.NewSecrets(w.db), Keys: w.wrapper, Judge: unasked{}, Holders: oneHolder}))(t)
	must.Get(s.Put(t.Context(), access.Caller{Principal: access.User("seed")}, must.Get(vault.ParseRef(ref))(t), []byte("seed"), vault.Metadata{}))(t)
}

// oneHolder returns alice as the owner of every agent and skill.
func oneHolder(vault.Kind, string) string { return "user:alice" }

type unasked struct{}

func (unasked) Permit(vault.Borrower, access.Permission, vault.Ref) error { return nil }

// TestLeasesFollowPolicy: policy decides which secrets calls may use.
func TestLeasesFollowPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for scope, may := range map[string]string{
		"global": "alice dan coder", "user:alice": "alice coder", "user:dan": "dan", "agent:coder": "coder", "agent:other": "", "skill:deploy": "", "node:n1": "",
	} {
		for name, who := range map[string]access.Principal{"alice": access.User("alice"), "dan": access.User("dan"), "coder": access.Agent("coder")} {
			caller := access.Caller{Principal: who, OnBehalfOf: who, Surface: access.SurfaceGRPC}
			err := w.engine.Current().Access().Permit(policy.AccessRequest{Caller: caller, Permission: access.PermSecretLease, Resource: scope + "/x"})
			if want := strings.Contains(" "+may+" ", " "+name+" "); (err == nil) != want {
				t.Errorf("%s leases of %s: %v", name, scope, err)
			}
		}
	}
	// A skill's guests may use the skill's secrets and their caller's secrets, and no others.
	for _, c := range []struct {
		who        access.Principal
		skill, ref string
		may        bool
	}{
		{access.User("dan"), "deploy", "skill:deploy/x", true},
		{access.Agent("coder"), "deploy", "skill:deploy/x", true},
		{access.User("mallory"), "deploy", "skill:deploy/x", false},
		{access.User("dan"), "web", "skill:deploy/x", false},
		{access.User("dan"), "deploy", "user:alice/x", false},
		{access.User("dan"), "deploy", "node:deploy/x", false},
		{access.User("dan"), "deploy", "user:dan/x", true},
	} {
		caller := access.Caller{Principal: c.who, OnBehalfOf: c.who, Surface: access.SurfaceGRPC}
		err := w.engine.Current().Access().Permit(policy.AccessRequest{Caller: caller, Permission: access.PermSecretLease, Resource: c.ref, Skill: c.skill})
		if (err == nil) != c.may {
			t.Errorf("a guest of %s leases %s for %s: %v", c.skill, c.ref, c.who, err)
		}
	}
	stranger := access.Caller{Principal: access.User("mallory"), Surface: access.SurfaceGRPC}
	if err := w.engine.Current().Access().Permit(policy.AccessRequest{Caller: stranger, Permission: access.PermSecretLease, Resource: "global/x"}); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("a stranger leases: %v", err)
	}
}

func TestVault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, v := t.Context(), w.alice.vault()
	end := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	note := "deploys"
	put := must.Get(v.PutSecret(ctx, &palyrav1.PutSecretRequest{
		Ref: "vault://global/github", Value: []byte("first-value"), Note: &note, ExpiresAt: timestamppb.New(end), Hosts: &palyrav1.HostList{Hosts: []string{"api.github.com:443"}},
	}))(t).GetSecret()
	if put.GetRef() != "vault://global/github" || put.GetVersion() != 1 || put.GetHeader() != "Authorization" || !put.GetExpiresAt().AsTime().Equal(end) || put.GetLastUsedAt() != nil {
		t.Errorf("put %v", put)
	}
	must.Get(v.PutSecret(ctx, &palyrav1.PutSecretRequest{Ref: "global/github", Value: []byte("second-value")}))(t)
	must.Get(v.PutSecret(ctx, &palyrav1.PutSecretRequest{Ref: "global/github", NeverExpires: true, Hosts: &palyrav1.HostList{}}))(t)
	_, err := v.PutSecret(ctx, &palyrav1.PutSecretRequest{Ref: "global/github", Value: []byte{}})
	wantError(t, "an empty value", err, reason.InvalidInput)
	got := must.Get(v.GetSecret(ctx, &palyrav1.GetSecretRequest{Ref: "global/github"}))(t).GetSecret()
	if got.GetVersion() != 2 || len(got.GetVersions()) != 2 || got.GetVersions()[0].GetCreatedBy() != "user:alice" || got.GetNote() != note || got.GetExpiresAt() != nil || len(got.GetHosts()) != 0 {
		t.Errorf("got %v", got)
	}
	for version, want := range []string{"second-value", "first-value", "second-value"} {
		if value := must.Get(v.RevealSecret(ctx, &palyrav1.RevealSecretRequest{Ref: "global/github", Version: int32(version)}))(t).GetValue(); string(value) != want {
			t.Errorf("version %d is %q", version, value)
		}
	}
	if events := must.Get(w.journal.List(ctx, journal.Filter{Code: string(event.SecretRead)}))(t); len(events) != 3 || events[0].Actor != "user:alice" || strings.Contains(string(events[0].Payload), "value") {
		t.Errorf("reads %v", events)
	}
	must.Get(v.PutSecret(ctx, &palyrav1.PutSecretRequest{Ref: "global/a", Value: []byte("value")}))(t)
	first := must.Get(v.ListSecrets(ctx, &palyrav1.ListSecretsRequest{PageSize: 1}))(t)
	second := must.Get(v.ListSecrets(ctx, &palyrav1.ListSecretsRequest{PageSize: 1, PageToken: first.GetNextPageToken()}))(t)
	last := must.Get(v.ListSecrets(ctx, &palyrav1.ListSecretsRequest{PageSize: 1, PageToken: second.GetNextPageToken()}))(t)
	if first.GetSecrets()[0].GetRef() != "vault://global/a" || second.GetSecrets()[0].GetRef() != "vault://global/github" || len(last.GetSecrets()) != 0 || last.GetNextPageToken() != "" {
		t.Errorf("pages %v, %v, %v", first, second, last)
	}
	if list := must.Get(w.dan.vault().ListSecrets(ctx, &palyrav1.ListSecretsRequest{}))(t); len(list.GetSecrets()) != 0 {
		t.Errorf("a developer sees %v", list)
	}

	rekeyed := must.Get(v.RekeyVault(ctx, &palyrav1.RekeyVaultRequest{}))(t)
	if rekeyed.GetRewrapped() != 3 || len(rekeyed.GetDroppedKeyIds()) != 1 {
		t.Errorf("rekeyed %v", rekeyed)
	}
	id := must.Get(age.GenerateX25519Identity())(t)
	export := must.Get(v.ExportRecovery(ctx, &palyrav1.ExportRecoveryRequest{Recipient: id.Recipient().String()}))(t)
	opened := must.Get(vault.OpenRecovery("", strings.NewReader(export.GetExport()), strings.NewReader(id.String())))(t)
	st := must.Get(v.GetVaultStatus(ctx, &palyrav1.GetVaultStatusRequest{}))(t)
	if len(opened.Keys) != 1 || opened.Keys[0].ID != rekeyed.GetKeyId() || st.GetKeyId() != rekeyed.GetKeyId() || st.GetLocked() || st.GetExportedAt() == nil || st.GetPlace() != "memory" {
		t.Errorf("export %v, status %v", export.GetKeyIds(), st)
	}
	for who, c := range map[string]*client{"operator": w.bob, "developer": w.dan, "agent": w.coder} {
		_, err := c.vault().RekeyVault(ctx, &palyrav1.RekeyVaultRequest{})
		wantError(t, "rekey of the "+who, err, reason.PermissionDenied)
		_, err = c.vault().ExportRecovery(ctx, &palyrav1.ExportRecoveryRequest{Recipient: id.Recipient().String(), Again: true})
		wantError(t, "export of the "+who, err, reason.PermissionDenied)
		_, err = c.vault().UnlockVault(ctx, &palyrav1.UnlockVaultRequest{Passphrase: []byte("x")})
		wantError(t, "unlock of the "+who, err, reason.PermissionDenied)
	}
}

// TestTokensReadNoSecrets: no token can have a permission to write, read or delete secrets.
func TestTokensReadNoSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, p := range []access.Permission{access.PermVaultPut, access.PermVaultGet, access.PermVaultDelete, access.PermVaultRekey} {
		_, _, err := w.tokens.Create(t.Context(), access.User("alice"), token.Request{Name: "ci", Scopes: []access.Permission{p}})
		reasontest.Want(t, string(p), err, reason.InvalidInput)
	}
	_, _, err := w.tokens.Create(t.Context(), access.User("alice"), token.Request{Name: "ci", Scopes: []access.Permission{access.PermVaultList, access.PermSecretLease}})
	must.Do(t, err)
}
