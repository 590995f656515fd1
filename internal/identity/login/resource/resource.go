// Package resource makes the gateway an OAuth 2.1 resource server: it takes access
// tokens of issuers that the operator configured, as JWTs (RFC 9068), and says whose
// they are. Each issuer is configured with the audience that its tokens have to be
// for, the signatures that count, and who acts as whom here; a token of anybody else
// is refused. The gateway's own tokens are package token's.
//
// A token is read and forgotten: nothing here keeps it or sends it anywhere. Like the
// gateway's own tokens it bounds what its caller may do, and decides nothing.
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

// Mapping says as which member somebody acts whom an issuer names.
type Mapping struct {
	// Subject or Group is whom the issuer names, exactly one of them. A group maps to
	// agents alone: a person is one subject.
	Subject, Group string
	ActsAs         access.Principal
	// Scopes are the most that such a token can have.
	Scopes []access.Permission
}

// Issuer is an authorization server whose access tokens count.
type Issuer struct {
	// Name is the issuer, as "iss" says it and as it calls itself (RFC 8414, section 2).
	Name string
	// Audience is what "aud" has to hold.
	Audience   string
	Algorithms []string
	// JWKS is the URL of the issuer's keys; "" asks its metadata.
	JWKS string
	// Rules are the hosts that may be asked for metadata and keys.
	Rules egress.Rules
	// SubjectClaim and GroupsClaim name whom a mapping is about.
	SubjectClaim, GroupsClaim string
	// TypedTokens wants the header's typ to be at+jwt, so that an ID token for the same
	// audience is no access token.
	TypedTokens bool
	// ScopesInToken wants each scope to be in the token, too. Without it, a token has
	// the scopes of its mapping.
	ScopesInToken bool
	Members       []Mapping
}

// Members are those that the gateway knows (access.Registry).
type Members interface {
	Active(p access.Principal) (access.Member, bool)
}

// Config is what a Service is made of. All but Now, Resolver, Dial and Interfaces are required; with no
// Issuers every token is refused.
type Config struct {
	Issuers []Issuer
	Members Members
	Log     *slog.Logger
	Now     func() time.Time
	// Resolver, Dial and Interfaces are those of egress.Dialer; the system's when nil.
	Resolver   egress.Resolver
	Dial       func(ctx context.Context, network, address string) (net.Conn, error)
	Interfaces func() ([]netip.Addr, error)
}

// Service reads access tokens. It is safe for concurrent use.
type Service struct {
	members Members
	issuers map[string]*issuer
	now     func() time.Time
}

type issuer struct {
	Issuer
	keys *keys
}

// New returns the service. It asks no issuer yet: a gateway starts without.
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
			return nil, fmt.Errorf("oauth issuer %s is there twice", i.Name)
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
			return fmt.Errorf("a mapping of it is about a subject or a group, and a group acts as an agent: %+v", m)
		}
		if slices.ContainsFunc(m.Scopes, func(p access.Permission) bool { return slices.Contains(access.NeverByToken, p) }) {
			return fmt.Errorf("a mapping of it has a scope that no token has: %+v", m)
		}
	}
	return nil
}

// Offered reports whether there is an issuer.
func (s *Service) Offered() bool { return s != nil && len(s.issuers) > 0 }

// names are those of the issuers, in order.
func (s *Service) names() []string {
	var names []string
	for _, i := range s.issuers {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	return names
}

// scopes are those that a token of any issuer can have, in order.
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

// maxToken is the longest token that is looked at, in bytes.
const maxToken = 16 << 10

// Authenticate maps an access token to the caller that it stands for. Its errors have
// the reason Unauthenticated, or LoginUnavailable where an issuer's keys cannot be had.
func (s *Service) Authenticate(ctx context.Context, token string) (access.Caller, error) {
	if len(token) > maxToken {
		return access.Caller{}, refused("it has more than %d bytes", maxToken)
	}
	// Only an issuer that is configured is asked for keys, and a token's own word says
	// which; what it says counts once those keys verified it.
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

// caller is who acts with a verified token, with no more than the mapping and the token
// say.
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

// Stands says why a caller that came with an access token may not go on: its member was
// disabled or removed, or what it may do was reduced. Its errors have the reason
// Unauthenticated. The end of the token is none: clients refresh theirs every few
// minutes and go on with what they began.
func (s *Service) Stands(c access.Caller) error {
	member, ok := s.members.Active(c.Principal)
	if !ok {
		return refused("%s, as whom it acted, may not act any more: it or its owner is disabled or gone", c.Principal)
	}
	return c.Reduced(member.Caller(c.DeviceID))
}

// mapping finds as whom somebody acts. A subject that is named wins over groups; groups
// that lead to several members lead nowhere.
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
			WithRemedy("An administrator maps the subject itself in [[oauth_issuers.members]].")
	}
	m := found[0]
	for _, other := range found[1:] {
		m.Scopes = slices.Concat(m.Scopes, other.Scopes)
	}
	return m, nil
}

// credential names what a token stands for: the subject at the issuer through one
// client, so that a refreshed token goes on where the one before it ended.
func (v verified) credential(issuer string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{issuer, v.subject, v.client}, "\x00")))
	return "oauth-" + hex.EncodeToString(sum[:12])
}

func refused(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.Unauthenticated, "the access token does not count: "+format, args...).
		WithRemedy("Get another token from the issuer that this gateway's /.well-known/oauth-protected-resource names; an administrator looks at [[oauth_issuers]].")
}
