package gateway

import (
	"context"
	"crypto/x509"
	"os"
	"slices"
	"time"

	"palyra/internal/agent/watch"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/passkeys"
	"palyra/internal/identity/token"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/presenceproof"
	"palyra/internal/surface/notify"
)

// members implements the API's changes of members.
type members struct {
	*access.Registry
	*identity.Members
	*identity.Confirmations
	certificates *identity.Certificates
	authority    *ca.Authority
	policies     *policyadmin.Active
}

// devices implements the API's changes and reads of devices.
type devices struct {
	*access.Registry
	*identity.Directory
	*identity.DeviceAdmin
	*identity.Keys
	*identity.Logins
	certificates *identity.Certificates
	authority    *ca.Authority
	policies     *policyadmin.Active
}

// presenceKeys implements the API's changes of presence keys, and the confirmations of the host.
type presenceKeys struct {
	*identity.Directory
	*identity.PresenceKeys
	*identity.Confirmations
}

// origins implements the API's reads of who controls a member.
type origins struct {
	*identity.Directory
	*identity.Consents
}

// policySets implements the API's reads and changes of policy sets.
type policySets struct {
	*policyadmin.Active
	*policyadmin.CeilingAdmin
	*policyadmin.Loader
	*policyadmin.History
	*policyadmin.Proposals
	*policyadmin.Drafts
	*policyadmin.PastCalls
}

func policyAdmin(p *policyadmin.Admin) policySets {
	return policySets{p.Active, p.Ceilings, p.Loader, p.History, p.Proposals, p.Drafts, p.Past}
}

func memberAdmin(g *gateway) *members {
	return &members{g.registry, g.identity.Members, g.identity.Confirmations, g.identity.Certificates, g.authority, g.policies.Active}
}

func deviceAdmin(g *gateway) *devices {
	s := g.identity
	return &devices{g.registry, s.Directory, s.Devices, s.Keys, s.Logins, s.Certificates, g.authority, g.policies.Active}
}

// Add adds a member. The policy engine includes the member when Add returns.
func (m *members) Add(ctx context.Context, by access.Caller, n api.NewMember) (api.Credential, error) {
	added, err := m.AddMember(ctx, by.Principal, n.Name, n.Kind, n.Roles, n.Owner, n.Request, n.AcceptLoss)
	if err != nil {
		return api.Credential{}, err
	}
	if err := m.policies.Rebuild(ctx, by.Principal.String()); err != nil {
		return api.Credential{}, err
	}
	return credential(m.authority, added), nil
}

func credential(authority *ca.Authority, a identity.Admission) api.Credential {
	return api.Credential{
		Member: a.Member, Device: a.Device, Chain: string(a.Certificate.PEM),
		Root: string(authority.RootPEM()), ServerName: serverName,
	}
}

// Collect returns the credential of a member that was added already. The policy engine includes
// the member when Collect returns, because the daemon that applies the change may have written
// the member and not yet rebuilt the policies.
func (m *members) Collect(ctx context.Context, by access.Caller, n api.NewMember) (api.Credential, bool, error) {
	member := access.Member{Principal: access.Principal{Kind: n.Kind, Name: n.Name}, Owner: n.Owner, Roles: n.Roles}
	added, found, err := m.certificates.Collect(ctx, by.Principal, member, n.Request)
	if !found || err != nil {
		return api.Credential{}, found, err
	}
	if err := m.policies.Rebuild(ctx, by.Principal.String()); err != nil {
		return api.Credential{}, true, err
	}
	return credential(m.authority, added), true, nil
}

// liveDevice returns a function that reports whether a device may still act.
func liveDevice(dir *identity.Directory) func(id string) bool {
	return func(id string) bool {
		d, known := dir.Device(id)
		return known && !d.Revoked()
	}
}

// sessionDevice returns a function that reports whether a device is the session of a login.
func sessionDevice(dir *identity.Directory) func(id string) bool {
	return func(id string) bool {
		d, known := dir.Device(id)
		return known && d.Session()
	}
}

// revokedDevice returns a function that reports whether a device was revoked.
func revokedDevice(dir *identity.Directory) func(id string) bool {
	return func(id string) bool {
		d, known := dir.Device(id)
		return known && d.Revoked()
	}
}

// standing returns a function that reports why a caller must stop, by the current state of its
// credential.
func standing(g *gateway) func(access.Caller) error {
	return func(c access.Caller) error {
		switch {
		case c.Token == nil || c.Transport == access.TransportSocket:
			return g.identity.Callers.Stands(c)
		case c.Token.Issuer == "":
			return g.tokens.Stands(c)
		default:
			return g.issuers.Stands(c)
		}
	}
}

// serverName is in every server certificate.
const serverName = "localhost"

// Renew issues a new certificate for a device.
func (d *devices) Renew(ctx context.Context, deviceID, byKey string, csr []byte) (api.Credential, error) {
	issued, err := d.certificates.Renew(ctx, deviceID, byKey, csr)
	if err != nil {
		return api.Credential{}, err
	}
	return api.Credential{Chain: string(issued.PEM), Root: string(d.authority.RootPEM())}, nil
}

// Revoke refuses a device from now on. The policy engine includes the change when Revoke
// returns.
func (d *devices) Revoke(ctx context.Context, by access.Caller, deviceID, why string, acceptLoss bool) (identity.Device, error) {
	dev, err := d.DeviceAdmin.Revoke(ctx, by.Principal, deviceID, why, acceptLoss)
	if err != nil {
		return dev, err
	}
	// The policies are rebuilt even if the revocation has ended this request.
	return dev, d.policies.Rebuild(context.WithoutCancel(ctx), by.Principal.String())
}

// AddDevice gives a member another device.
func (d *devices) AddDevice(ctx context.Context, by access.Caller, r identity.Recovery) (api.Credential, error) {
	made, err := d.DeviceAdmin.AddDevice(ctx, by.Principal, by.DeviceID, r)
	if err != nil {
		return api.Credential{}, err
	}
	// The device of this request may itself be revoked, which ends the request. An error would
	// lose the credential of the new device.
	if err := d.policies.Rebuild(context.WithoutCancel(ctx), by.Principal.String()); err != nil {
		return api.Credential{}, err
	}
	return api.Credential{
		Device: made.Device, Revoked: made.Revoked, Chain: string(made.Certificate.PEM), Root: string(d.authority.RootPEM()), ServerName: serverName,
	}, nil
}

func openMembers(ctx context.Context, g *gateway, _ Options) error {
	var err error
	g.registry, g.identity, err = openIdentity(ctx, g.stores.identity, g.authority, g.cfg.Roles, guard(g))
	if err != nil {
		return err
	}
	if g.tokens, err = token.New(ctx, token.Config{Store: g.stores.tokens, Members: g.registry, Revoked: revokedDevice(g.identity.Directory)}); err != nil {
		return err
	}
	if g.passkeys, err = openPasskeys(ctx, g.cfg, g.stores, g.authority, g.registry, g.identity.Directory); err != nil {
		return err
	}
	if g.installed, err = watch.New(ctx, g.stores.installed, g.log, time.Now); err != nil {
		return err
	}
	if g.chatUsers, err = notify.NewUsers(ctx, g.stores.notify, g.registry, g.identity.Consents, guard(g), time.Now); err != nil {
		return err
	}
	notary := g.authority.Notary.Key()
	cfg := attest.NotaryConfig{Signer: notary.Signer, Chain: notary.Chain, Gateway: g.authority.TrustDomain()}
	for _, p := range g.authority.Notary.Past() {
		cfg.Past = append(cfg.Past, attest.PastKey{Chain: p.Chain, RetiredAt: p.RetiredAt})
	}
	g.notary, err = attest.NewNotary(cfg)
	return err
}

// openPasskeys opens the passkeys, for the daemon and for commands on the state directory of a
// stopped daemon.
func openPasskeys(ctx context.Context, cfg *config.Config, s stores, authority *ca.Authority, registry *access.Registry, dir *identity.Directory) (*passkeys.Keeper, error) {
	makes := passkeys.Makes{AAGUIDs: cfg.Presence.AAGUIDs}
	if file := cfg.Presence.AttestationRoots; file != "" {
		text, err := os.ReadFile(file)
		if makes.Roots = x509.NewCertPool(); err != nil || !makes.Roots.AppendCertsFromPEM(text) {
			return nil, reason.Errorf(reason.ConfigInvalid, "presence.attestation_roots: %s holds no certificates (PEM) that can be read", file)
		}
	}
	return passkeys.New(ctx, passkeys.Config{
		Store: s.passkeys, Members: registry, Gateway: presenceproof.Gateway(authority.Root()), Makes: makes,
		Independent: func(a, b access.Principal) bool {
			return dir.History().Controllers().Independence().Independent(a, b)
		},
		AgentConnected: func(ctx context.Context) (bool, error) { return agentConnected(ctx, s, registry) },
	})
}

// agentConnected reports whether an agent was ever connected: a present or removed agent member, a
// token, or a call exists.
func agentConnected(ctx context.Context, s stores, registry *access.Registry) (bool, error) {
	if slices.ContainsFunc(registry.List(), func(m access.Member) bool { return m.Principal.Kind == access.KindAgent }) {
		return true, nil
	}
	tokens, err := s.tokens.Tokens(ctx)
	if err != nil || len(tokens) > 0 {
		return true, err
	}
	calls, err := s.journal.Events(ctx, journal.Filter{Code: string(event.Proposed), Limit: 1})
	return len(calls) > 0, err
}

// guard permits the changes of the gateway that its gate has had approved.
func guard(g *gateway) change.Guard {
	return func(ctx context.Context, kind change.Kind) error { return g.changing.Guard(ctx, kind) }
}

// openIdentity opens the members and their devices, for the daemon and for commands on the
// state directory of a stopped daemon.
func openIdentity(ctx context.Context, store identity.Store, authority *ca.Authority, roles []access.Role, guard change.Guard) (*access.Registry, *identity.Service, error) {
	registry, err := access.NewRegistry(ctx, store, roles)
	if err != nil {
		return nil, nil, err
	}
	service, err := identity.New(ctx, identity.Config{Authority: authority, Store: store, Registry: registry, Guard: guard})
	return registry, service, err
}
