// Package resource makes the gateway an OAuth 2.1 resource server: it accepts access tokens of
// configured issuers, as JWTs (RFC 9068), and maps them to members. The configuration of an
// issuer contains the required audience, the permitted signature algorithms, and the mapping of
// subjects to members. A token of any other issuer is refused. Package token implements the
// gateway's own tokens.
//
// A token is neither stored nor forwarded. Like the gateway's own tokens, it limits the
// permissions of its caller, and cannot decide approvals.
//
// Tokens of issuers are accepted for MCP but not for the API: their audience is the MCP server
// (RFC 8707). The API uses the gateway's own tokens, which can be listed and revoked here.
package resource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/identity/login"
)

// Mapping maps a subject of an issuer to a member. A group can only map to an agent: if it
// mapped to a user, all its members would be one person in the journal and in approvals.
type Mapping struct {
	// Subject or Group identifies the subjects of the issuer; exactly one is set. A person is one
	// subject.
	Subject, Group string
	ActsAs         access.Principal
	// Scopes is the upper bound of the scopes of such a token.
	Scopes []access.Permission
}

// Issuer is an authorization server whose access tokens are accepted.
type Issuer struct {
	// Name is the issuer's identifier in "iss" and in its metadata (RFC 8414, section 2).
	Name string
	// Audience is the required value of "aud".
	Audience   string
	Algorithms []string
	// JWKS is the URL of the issuer's keys; "" means the URL in its metadata.
	JWKS string
	// Rules are the hosts that may be queried for metadata and keys.
	Rules egress.Rules
	// SubjectClaim and GroupsClaim name the claims to which mappings apply.
	SubjectClaim, GroupsClaim string
	// TypedTokens requires typ at+jwt in the header, so that an ID token for the same audience is
	// not accepted as an access token.
	TypedTokens bool
	// ScopesInToken requires that each scope is also in the token. If it is false, a token has the
	// scopes of its mapping.
	ScopesInToken bool
	Members       []Mapping
}

// Members are the gateway's members (access.Registry).
type Members interface {
	Active(p access.Principal) (access.Member, bool)
}

// Config holds the dependencies of a Service. All fields except Now, Resolver, Dial and
// Interfaces are required. Without Issuers, every token is refused.
type Config struct {
	Issuers []Issuer
	Members Members
	Log     *slog.Logger
	Now     func() time.Time
	// Resolver, Dial and Interfaces are passed to egress.Dialer; nil means the system's.
	Resolver   egress.Resolver
	Dial       func(ctx context.Context, network, address string) (net.Conn, error)
	Interfaces func() ([]netip.Addr, error)
}

// Service verifies access tokens. It is safe for concurrent use.
type Service struct {
	members Members
	issuers map[string]*issuer
	now     func() time.Time
}

type issuer struct {
	Issuer
	keys *keys
}

// New returns the service. It does not query an issuer, so that a gateway can start without
// one.
func New(c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Service{members: c.Members, issuers: map[string]*issuer{}, now: c.Now}
	for _, i := range c.Issuers {
		if err := i.check(); err != nil {
			return nil, fmt.Errorf("oauth issuer %s: %w", i.Name, err)
		}
		if s.issuers[normalized(i.Name)] != nil {
			return nil, fmt.Errorf("OAuth issuer %s is configured twice", i.Name)
		}
		s.issuers[normalized(i.Name)] = &issuer{i, newKeys(i, c)}
	}
	return s, nil
}

func (i Issuer) check() error {
	switch {
	case i.Name == "" || i.Audience == "":
		return errors.New("it needs a name and an audience")
	case len(i.Algorithms) == 0 || slices.ContainsFunc(i.Algorithms, func(a string) bool { return !login.Asymmetric(a) }):
		return errors.New("its algorithms are not all asymmetric signatures")
	case i.SubjectClaim == "" || i.GroupsClaim == "":
		return errors.New("it needs the claims of subject and groups")
	}
	for _, m := range i.Members {
		if (m.Subject == "") == (m.Group == "") || m.ActsAs.IsZero() || m.Group != "" && m.ActsAs.Kind != access.KindAgent {
			return fmt.Errorf("a mapping must have a subject or a group, and a group must act as an agent: %+v", m)
		}
		if slices.ContainsFunc(m.Scopes, func(p access.Permission) bool { return slices.Contains(access.NeverByToken, p) }) {
			return fmt.Errorf("a mapping has a scope that tokens cannot have: %+v", m)
		}
	}
	return nil
}

// Offered reports whether an issuer is configured.
func (s *Service) Offered() bool { return s != nil && len(s.issuers) > 0 }

// names returns the names of the issuers, in order.
func (s *Service) names() []string {
	var names []string
	for _, i := range s.issuers {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	return names
}

// scopes returns the scopes that a token of any issuer can have, in order.
func (s *Service) scopes() []access.Permission {
	var all []access.Permission
	for _, i := range s.issuers {
		for _, m := range i.Members {
			all = append(all, m.Scopes...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// maxToken is the maximum length of a token in bytes.
const maxToken = 16 << 10

// Authenticate returns the caller that an access token represents. Its errors have the reason
// Unauthenticated, or LoginUnavailable if an issuer's keys are not available.
func (s *Service) Authenticate(ctx context.Context, token string) (access.Caller, error) {
	if len(token) > maxToken {
		return access.Caller{}, refused("it has more than %d bytes", maxToken)
	}
	// Only a configured issuer is queried for keys. The unverified token selects it; the token's
	// claims are used only after those keys have verified it.
	claimed := claimedIssuer(token)
	i, known := s.issuers[normalized(claimed)]
	if !known {
		return access.Caller{}, refused("its issuer is none of this gateway's (oauth_issuers)")
	}
	v, err := i.verify(ctx, claimed, token, s.now())
	if err != nil {
		return access.Caller{}, err
	}
	m, err := i.mapping(v)
	if err != nil {
		return access.Caller{}, err
	}
	return s.caller(i, v, m)
}

// caller returns the caller of a verified token, with at most the permissions of the mapping and
// the token.
func (s *Service) caller(i *issuer, v verified, m Mapping) (access.Caller, error) {
	member, ok := s.members.Active(m.ActsAs)
	if !ok && member.AwaitsConsent {
		return access.Caller{}, member.Waiting()
	}
	if !ok {
		return access.Caller{}, refused("%s, as whom it acts, may not act: it or its owner is disabled, gone or unknown", m.ActsAs)
	}
	scopes := m.Scopes
	if i.ScopesInToken {
		scopes = slices.DeleteFunc(slices.Clone(scopes), func(p access.Permission) bool { return !slices.Contains(v.scopes, string(p)) })
	}
	c := member.Caller(v.credential(i.Name))
	c.Token = &access.TokenBounds{Scopes: scopes, Creator: member.Principal, ExpiresAt: v.expires, Issuer: i.Name}
	return c, nil
}

// Stands returns the reason why a caller with an access token must stop: its member was disabled or
// removed, or its permissions were reduced. Its errors have the reason Unauthenticated. The expiry
// of the token does not count: clients refresh theirs every few minutes and continue their work.
func (s *Service) Stands(c access.Caller) error {
	member, ok := s.members.Active(c.Principal)
	if !ok {
		return refused("%s, as whom it acted, may not act any more: it or its owner is disabled or gone", c.Principal)
	}
	return c.Reduced(member.Caller(c.DeviceID))
}

// mapping returns the mapping of a token. A named subject takes precedence over groups. Groups
// that map to several members are an error.
func (i *issuer) mapping(v verified) (Mapping, error) {
	var found []Mapping
	for _, m := range i.Members {
		if m.Subject != "" && m.Subject == v.subject {
			return m, nil
		}
		if m.Group != "" && slices.Contains(v.groups, m.Group) {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 0:
		return Mapping{}, refused("no [[oauth_issuers.members]] maps its subject or one of its groups to a member")
	case slices.ContainsFunc(found, func(m Mapping) bool { return m.ActsAs != found[0].ActsAs }):
		return Mapping{}, refused("its groups map to several members").
			WithRemedy("Ask an administrator to map the subject itself in [[oauth_issuers.members]].")
	}
	m := found[0]
	for _, other := range found[1:] {
		m.Scopes = slices.Concat(m.Scopes, other.Scopes)
	}
	return m, nil
}

// credential identifies the subject at the issuer through one client, so that a refreshed token
// continues the work of the previous one.
func (v verified) credential(issuer string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{issuer, v.subject, v.client}, "\x00")))
	return "oauth-" + hex.EncodeToString(sum[:12])
}

func refused(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.Unauthenticated, "the access token is not accepted: "+format, args...).
		WithRemedy("Get another token from the issuer that this gateway's /.well-known/oauth-protected-resource names, or ask an administrator to check [[oauth_issuers]].")
}
