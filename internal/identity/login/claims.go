package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// skew is how far the provider's clock may be ahead.
const skew = time.Minute

// maxSubject is the maximum length of a subject in bytes (OpenID Connect Core 1.0, section 2).
const maxSubject = 255

// Asymmetric reports whether an algorithm is permitted for tokens of other issuers. With a
// symmetric algorithm, the gateway's secret would be sufficient for signing; "none" requires no
// key at all.
func Asymmetric(algorithm string) bool {
	return slices.Contains([]string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
	}, algorithm)
}

// vouched is a person authenticated by the provider.
type vouched struct {
	issuer, subject, name string
	groups                []string
}

// String names the person for the journal.
func (v vouched) String() string {
	return text.Ellipsis(fmt.Sprintf("%q (subject %q of %s)", v.name, v.subject, v.issuer), maxText)
}

// watchedKeys records an error of fetching the keys, which the verifier drops.
type watchedKeys struct {
	oidc.KeySet
	err error
}

// VerifySignature implements oidc.KeySet.
func (k *watchedKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	k.err = err
	return payload, err
}

// verify checks an ID token according to OpenID Connect Core 1.0, section 3.1.3.7: issuer, audience
// and authorized party, algorithm and signature, time, nonce, and the time of the person's last
// authentication.
func (s *Service) verify(ctx context.Context, p *provider, nonce, raw string) (vouched, error) {
	if raw == "" {
		return vouched{}, refused("the identity provider's answer has no ID token")
	}
	keys := &watchedKeys{KeySet: p.keys}
	token, err := oidc.NewVerifier(s.Issuer, keys, &oidc.Config{
		ClientID: s.ClientID, SupportedSigningAlgs: s.Algorithms, Now: s.Now,
	}).Verify(ctx, raw)
	if err != nil {
		if keys.err != nil && away(keys.err) {
			return vouched{}, unavailable(errors.New("its keys cannot be fetched"))
		}
		return vouched{}, refused("the identity provider's ID token does not count: %s", text.Ellipsis(err.Error(), maxText))
	}
	var c Claims
	if err := token.Claims(&c); err != nil {
		return vouched{}, refused("the identity provider's ID token is not a JSON object")
	}
	switch {
	case nonce != "" && !same(nonce, token.Nonce):
		return vouched{}, refused("the identity provider's ID token is not of this login")
	case token.IssuedAt.After(s.Now().Add(skew)):
		return vouched{}, refused("the identity provider's ID token is of the future").
			WithRemedy("Ask an administrator to correct the clocks of the gateway and of the provider.")
	case token.Subject == "" || len(token.Subject) > maxSubject:
		return vouched{}, refused("the identity provider's ID token has no subject of 1 to 255 bytes")
	}
	if err := s.checkParty(token.Audience, c); err != nil {
		return vouched{}, err
	}
	if err := s.checkAge(c); err != nil {
		return vouched{}, err
	}
	return s.person(token.Subject, c)
}

func refused(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.LoginRefused, format, args...)
}

// checkParty refuses a token created for another client, even if this client may read it. The
// authorized party must be this client, and must be present if the token has several audiences. A
// value that is not a string counts as another client.
func (s *Service) checkParty(audience []string, c Claims) error {
	if _, named := c["azp"]; (named || len(audience) > 1) && c.Text("azp") != s.ClientID {
		return refused("the identity provider's ID token is for another client")
	}
	return nil
}

// checkAge requires a recent authentication at the provider.
func (s *Service) checkAge(c Claims) error {
	if s.MaxAge == 0 {
		return nil
	}
	var at float64
	if json.Unmarshal(c["auth_time"], &at) != nil || at <= 0 {
		return refused("the identity provider does not say when the person last showed who they are, and oidc.max_age wants to know")
	}
	if s.Now().Sub(time.Unix(int64(at), 0)) > s.MaxAge+skew {
		return refused("the person showed the identity provider who they are longer ago than oidc.max_age allows").
			WithRemedy("Log out at the identity provider, and begin again with `palyra login`.")
	}
	return nil
}

// Claims are a token's claims, by name.
type Claims map[string]json.RawMessage

// Text returns a claim that is a string, or "" for any other claim.
func (c Claims) Text(name string) (text string) {
	if json.Unmarshal(c[name], &text) != nil {
		return ""
	}
	return text
}

// List returns a claim that is a list of strings, or a single string.
func (c Claims) List(name string) (list []string) {
	if json.Unmarshal(c[name], &list) == nil {
		return list
	}
	if one := c.Text(name); one != "" {
		return []string{one}
	}
	return nil
}

// person reads the name and the groups.
func (s *Service) person(subject string, c Claims) (vouched, error) {
	v := vouched{issuer: s.Issuer, subject: subject, name: c.Text(s.UsernameClaim), groups: c.List(s.GroupsClaim)}
	if s.UsernameClaim == "email" {
		var verified bool
		if json.Unmarshal(c["email_verified"], &verified) != nil || !verified {
			return v, refused("the identity provider did not verify the person's email address").
				WithRemedy("Verify it there, or have an administrator choose another claim for oidc.username_claim.")
		}
	}
	if s.UsernameDomain != "" {
		name, domain, _ := strings.Cut(v.name, "@")
		if !strings.EqualFold(domain, s.UsernameDomain) {
			return v, refused("%q is not of the domain %s", text.Ellipsis(v.name, maxName), s.UsernameDomain)
		}
		v.name = name
	}
	p, err := access.ParsePrincipal(access.User(v.name).String())
	if err != nil || p != access.User(v.name) {
		return v, refused("the claim %s is %q, which is not a valid name of a member: 1 to 63 of a-z, 0-9, '.', '_', '-'", s.UsernameClaim, text.Ellipsis(v.name, maxName)).
			WithRemedy("Ask an administrator to choose another claim for oidc.username_claim, or to set oidc.username_domain for names such as ann@example.com.")
	}
	// Distributed claims: OpenID Connect Core 1.0, section 5.6.2.
	var elsewhere map[string]string
	if json.Unmarshal(c["_claim_names"], &elsewhere) == nil && elsewhere[s.GroupsClaim] != "" {
		return v, refused("the identity provider does not put the groups of %s into the ID token: there are too many", v.name).
			WithRemedy("Ask an administrator to limit the provider's groups claim to the groups that this gateway uses.")
	}
	return v, nil
}

// roles returns the roles mapped from the person's groups.
func (s *Service) roles(v vouched) ([]access.Role, error) {
	var roles []access.Role
	for _, m := range s.Groups {
		if slices.Contains(v.groups, m.Group) {
			roles = append(roles, m.Roles...)
		}
	}
	if len(roles) > 0 {
		slices.Sort(roles)
		return slices.Compact(roles), nil
	}
	what := "is in no group"
	if len(v.groups) > 0 {
		what = "is in no group that has a role here, but in " + text.Ellipsis(strings.Join(v.groups, ", "), maxText)
	}
	return nil, refused("%s %s", v.name, what).
		WithRemedy("Ask an administrator to add a group to palyra.toml and restart palyrad: [[oidc.groups]] with group = \"GROUP\" and roles = [\"ROLE\"]; the claim is oidc.groups_claim = %q.", s.GroupsClaim)
}
