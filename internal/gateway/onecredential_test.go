package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/core/provenance"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/identitytest"
	"palyra/internal/store/sqlite/deliveries"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/surface/notify"
)

// graph contains a gateway's members, who create and change each other through the identity
// service. One of them does every operation that its credential permits.
type graph struct {
	*identity.Service
	t        *testing.T
	random   *mathrand.Rand
	registry *access.Registry
	csr      []byte
	attacker access.Principal
	// held are the members whose key the attacker has, agents included.
	held map[access.Principal]bool
	// chats are the users of a chat; the attacker controls all of them.
	chats *notify.Users
	// said lists the operations so far, for the failure message.
	said []string
}

// newGraph creates the first owner, one or two owners that the host's administrator confirmed,
// and an attacker as one of them.
func newGraph(t *testing.T, authority *ca.Authority, csr []byte, random *mathrand.Rand) *graph {
	t.Helper()
	store := identitytest.NewStore(t)
	registry := must.Get(access.NewRegistry(t.Context(), store, nil))(t)
	service := must.Get(identity.New(t.Context(), identity.Config{Guard: change.Unguarded, Authority: authority, Store: store, Registry: registry}))(t)
	g := &graph{Service: service, t: t, random: random, registry: registry, csr: csr, held: map[access.Principal]bool{}}
	_, _, err := service.Local.Start(t.Context(), identity.LocalConfig{Dir: filepath.Join(t.TempDir(), "operator"), Address: "127.0.0.1:1", ServerName: serverName})
	must.Do(t, err)
	g.chats = must.Get(notify.NewUsers(t.Context(), deliveries.New(sqlitetest.Open(t)), registry, service.Consents, change.Unguarded, time.Now))(t)
	roots := []access.Principal{access.User("local")}
	for i := range 1 + random.IntN(2) {
		p := access.User(fmt.Sprintf("root%d", i))
		must.Get(service.Members.AddMember(t.Context(), identity.Daemon(), p.Name, access.KindUser, []access.Role{access.RoleAdmin, access.RoleOperator}, access.Principal{}, csr, true))(t)
		must.Get(service.Confirmations.ConfirmMember(t.Context(), identity.Daemon(), p.Name))(t)
		roots = append(roots, p)
	}
	g.attacker = roots[random.IntN(len(roots))]
	g.held[g.attacker] = true
	return g
}

// did records the effect of an operation on the holders of keys.
func (g *graph) did(by, member access.Principal, what string, err error) {
	if err != nil {
		return
	}
	g.said = append(g.said, fmt.Sprintf("%s %s %s", by, what, member))
	holder := g.held[by] || by == identity.Daemon() && g.held[access.User("local")]
	switch {
	case what != "confirms":
		g.held[member] = g.held[member] || holder
	case by == identity.Daemon() || !g.held[by]:
		// The confirming member has verified that the key is the member's own.
		g.held[member] = member == g.attacker
	}
}

// act makes a random operation by a random member, or on the host.
func (g *graph) act() {
	list := slices.DeleteFunc(g.registry.List(), func(m access.Member) bool { return m.Disabled || m.Principal.Kind != access.KindUser })
	pick := func() access.Principal { return list[g.random.IntN(len(list))].Principal }
	by, p, ctx := pick(), pick(), g.t.Context()
	if g.random.IntN(10) == 0 {
		by = identity.Daemon()
	}
	switch g.random.IntN(11) {
	case 8:
		// A member creates an agent for another member.
		made := access.Agent(fmt.Sprintf("a%d", len(g.registry.List())))
		_, err := g.Members.AddMember(ctx, by, made.Name, access.KindAgent, []access.Role{access.RoleAgent}, p, g.csr, true)
		g.did(by, made, "makes", err)
	case 9:
		if g.held[by] {
			_, _ = g.chats.Map(ctx, g.caller(by), "TOWN", fmt.Sprintf("U%03d", g.random.IntN(4)), p)
			g.said = append(g.said, fmt.Sprintf("%s maps an account to %s", by, p))
		}
	case 10:
		// The attacker consents as every member whose key it holds; other members do not consent to
		// its accounts.
		for _, u := range g.chats.List() {
			if g.held[u.Member] {
				_, err := g.chats.Consent(ctx, g.caller(u.Member), u.Team, u.User, false)
				g.said = append(g.said, fmt.Sprintf("%s consents to %s: %v", u.Member, u.User, err))
			}
		}
	case 0, 1, 2:
		if n := len(g.registry.List()); n < 8 {
			made := access.User(fmt.Sprintf("m%d", n))
			role := []access.Role{access.RoleAdmin, access.RoleOperator, access.RoleOwner}[g.random.IntN(3)]
			_, err := g.Members.AddMember(ctx, by, made.Name, access.KindUser, []access.Role{role}, access.Principal{}, g.csr, true)
			g.did(by, made, "makes", err)
		}
	case 3:
		_, err := g.Devices.AddDevice(ctx, by, "", identity.Recovery{Member: p.String(), Request: g.csr, AcceptLoss: true})
		g.did(by, p, "gives a device to", err)
	case 4:
		c := identity.MemberChange{Member: p.String(), AcceptLoss: true, AddRoles: []access.Role{access.RoleOperator}}
		if m, _ := g.registry.Get(p); m.Holds(access.RoleOperator) {
			c.AddRoles = []access.Role{access.RoleAuditor}
			if m.Holds(access.RoleAuditor) {
				c.AddRoles, c.RemoveRoles = nil, []access.Role{access.RoleAuditor}
			}
		}
		_, err := g.Members.UpdateMember(ctx, by, c)
		g.did(by, p, "changes", err)
	default:
		_, err := g.Confirmations.ConfirmMember(ctx, by, p.String())
		g.did(by, p, "confirms", err)
	}
}

// scheme is an attacker's plan: create a member and an agent, map an account that votes as the
// member, and then have the host confirm the member.
func (g *graph) scheme() {
	ctx := g.t.Context()
	made, agent := access.User(fmt.Sprintf("s%d", len(g.registry.List()))), access.Agent(fmt.Sprintf("t%d", len(g.registry.List())))
	owner := access.User("root0")
	_, err := g.Members.AddMember(ctx, g.attacker, agent.Name, access.KindAgent, []access.Role{access.RoleAgent}, owner, g.csr, true)
	if g.did(g.attacker, agent, "makes", err); err == nil {
		_, err = g.Consents.ConsentToAgent(ctx, g.caller(owner), identity.Consent{Agent: agent.String()})
		must.Do(g.t, err)
	}
	_, err = g.Members.AddMember(ctx, g.attacker, made.Name, access.KindUser, []access.Role{access.RoleOperator}, access.Principal{}, g.csr, true)
	g.did(g.attacker, made, "makes", err)
	if err != nil {
		return
	}
	_, err = g.chats.Map(ctx, g.caller(g.attacker), "TOWN", "USCHEME", made)
	must.Do(g.t, err)
	_, _ = g.chats.Consent(ctx, g.caller(made), "TOWN", "USCHEME", false)
	must.Get(g.Confirmations.ConfirmMember(ctx, identity.Daemon(), made.Name))(g.t)
	g.did(identity.Daemon(), made, "confirms", nil)
}

// caller returns a member as a caller, with the member's own device.
func (g *graph) caller(p access.Principal) access.Caller {
	for _, d := range g.Directory.Devices() {
		if d.Principal == p && !d.Revoked() {
			return access.Caller{Principal: p, OnBehalfOf: p, DeviceID: d.ID, Paired: true}
		}
	}
	return access.Caller{Principal: p, OnBehalfOf: p}
}

// ballots returns the members as whom the attacker can vote. With every, accounts without
// consent count, too.
func (g *graph) ballots(every bool) []access.Member {
	return slices.DeleteFunc(g.registry.List(), func(m access.Member) bool {
		byChat := slices.ContainsFunc(g.chats.List(), func(u notify.ChatUser) bool { return u.Member == m.Principal && (every || u.Votes()) })
		return m.Principal.Kind != access.KindUser || !g.held[m.Principal] && !byChat
	})
}

// judge loads a rule that requires two people, with the current members.
func (g *graph) judge(hands provenance.Controllers) *policy.Set {
	cfg := policytest.Config(policytest.Options{Policies: `@id("two")
forbid(principal, action == Action::"tool.execute/process.run", resource)
unless { context.approval.approvers >= 2 };`})
	cfg.Members, cfg.Controllers = g.registry.List(), hands
	return must.Get(policy.Load(cfg))(g.t)
}

// enough reports whether the voters satisfy the rule of two people for a call of the requester.
func enough(set *policy.Set, requester access.Principal, voters []access.Member) bool {
	r := policytest.Request("process.run", `{"argv":["git","push"]}`)
	r.Caller.Principal, r.Caller.OnBehalfOf, r.Caller.Roles = requester, requester, []access.Role{access.RoleOperator}
	var votes []policy.Vote
	for _, m := range voters {
		votes = append(votes, policytest.Vote(m.Principal, m.Roles...))
	}
	return set.Judge(r, policytest.Approval(votes...)).Allowed
}

// TestOneCredentialIsNeverTwo: a caller with one credential never counts as two people for
// policy, neither for its own calls nor for another's. The caller creates, changes and confirms
// members as the gateway permits. Controls: without the history, or with votes of accounts
// without consent, the caller does count as two. With other members present, two people count
// as two.
func TestOneCredentialIsNeverTwo(t *testing.T) {
	t.Parallel()
	authority, _, err := ca.Open(filepath.Join(t.TempDir(), "ca"), ca.Options{})
	must.Do(t, err)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	csr := must.Get(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{}}, key))(t)
	random := mathrand.New(mathrand.NewPCG(13, 7))
	control, others, chats, asked := 0, 0, 0, 0
	for range 40 {
		g := newGraph(t, authority, csr, random)
		for range 6 + random.IntN(14) {
			g.act()
		}
		if random.IntN(2) == 0 {
			g.scheme()
		}
		all := g.registry.List()
		held := g.ballots(false)
		set, without := g.judge(g.Directory.History().Controllers()), g.judge(nil)
		for _, m := range all {
			if m.Principal.Kind == access.KindAgent && !g.held[m.Principal] {
				continue
			}
			if enough(set, m.Principal, g.ballots(true)) {
				chats++
			}
			for _, honest := range all {
				if !g.held[m.Principal] || honest.Principal.Kind != access.KindUser || slices.ContainsFunc(held, func(h access.Member) bool { return h.Principal == honest.Principal }) {
					continue
				}
				if enough(set, m.Principal, append(slices.Clip(held), honest)) {
					t.Fatalf("%s votes on a call of its own, as %s, beside %s:\n%v", g.attacker, m.Principal, honest.Principal, g.said)
				}
			}
			if enough(set, m.Principal, held) {
				t.Fatalf("%s has the keys of %v, and its votes are two people for a call of %s:\n%v", g.attacker, g.held, m.Principal, g.said)
			}
			asked++
			if enough(without, m.Principal, held) {
				control++
			}
			if enough(set, m.Principal, all) {
				others++
			}
		}
	}
	if control < asked/20 || others < asked/20 || chats == 0 {
		t.Errorf("of %d questions only %d would be two people without the history, %d if every account voted, and %d are with others", asked, control, chats, others)
	}
}
