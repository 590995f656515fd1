package daemon

import (
	"context"
	"fmt"
	"slices"

	"palyra/internal/access"
	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/login/resource"
)

// openIssuers makes what reads access tokens of other issuers. None is asked yet.
func openIssuers(_ context.Context, g *gateway, _ Options) error {
	c := resource.Config{Members: g.registry, Log: g.log}
	for n, o := range g.cfg.OAuthIssuers {
		i, err := issuer(o)
		if err != nil {
			return fmt.Errorf("oauth_issuers[%d]: %w", n, err)
		}
		if i.Rules.Deny, err = egress.ParseRules(g.cfg.HTTP.DeniedHosts); err != nil {
			return fmt.Errorf("http.denied_hosts: %w", err)
		}
		i.Rules.Gateway = g.own
		c.Issuers = append(c.Issuers, i)
	}
	var err error
	g.issuers, err = resource.New(c)
	return err
}

// issuer is one that the file names. Its own host and that of its keys may be asked.
func issuer(o config.OAuthIssuer) (resource.Issuer, error) {
	i := resource.Issuer{
		Name: o.Issuer, Audience: o.Audience, Algorithms: o.Algorithms, JWKS: o.JWKSURI, SubjectClaim: o.SubjectClaim, GroupsClaim: o.GroupsClaim,
		TypedTokens: !o.AnyType, ScopesInToken: !o.ScopesOfMembers,
	}
	own, err := resource.Hosts(o.Issuer, o.JWKSURI)
	if err != nil {
		return i, err
	}
	more, err := egress.ParseRules(o.AllowedHosts)
	if err != nil {
		return i, err
	}
	i.Rules.Allow = slices.Concat(own, more)
	for _, m := range o.Members {
		as, err := access.ParsePrincipal(m.ActsAs)
		if err != nil {
			return i, err
		}
		mapping := resource.Mapping{Subject: m.Subject, Group: m.Group, ActsAs: as}
		for _, s := range m.Scopes {
			mapping.Scopes = append(mapping.Scopes, access.Permission(s))
		}
		i.Members = append(i.Members, mapping)
	}
	return i, nil
}
