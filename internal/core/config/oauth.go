package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/dnsname"
)

// OAuthIssuer is an authorization server whose access tokens the gateway takes at its
// MCP server and the routes beside it.
type OAuthIssuer struct {
	// Issuer is the server as its tokens name it.
	Issuer string `toml:"issuer"`
	// Audience is what its tokens have to be for.
	Audience string `toml:"audience"`
	// Algorithms are the signatures that count.
	Algorithms []string `toml:"algorithms"`
	// JWKSURI is where its keys are; "" asks its metadata.
	JWKSURI string `toml:"jwks_uri"`
	// AllowedHosts may be asked for metadata and keys, beside the hosts of Issuer and
	// JWKSURI. They are host rules with a port; an address that is not public is reached
	// when a rule names it.
	AllowedHosts []string `toml:"allowed_hosts"`
	SubjectClaim string   `toml:"subject_claim"`
	GroupsClaim  string   `toml:"groups_claim"`
	// AnyType also takes tokens whose type is not at+jwt.
	AnyType bool `toml:"any_type"`
	// ScopesOfMembers gives a token the scopes of its mapping, whatever is in the token.
	ScopesOfMembers bool `toml:"scopes_of_members"`
	// Members says who acts as whom.
	Members []OAuthMember `toml:"members"`
}

// OAuthMember maps a subject or a group of an issuer to a member.
type OAuthMember struct {
	Subject string `toml:"subject"`
	Group   string `toml:"group"`
	// ActsAs is the member: "user:NAME", or "agent:NAME".
	ActsAs string `toml:"acts_as"`
	// Scopes are the most that a token can be for.
	Scopes []string `toml:"scopes"`
}

// fillIssuers sets what the tables of the issuers do not say.
func fillIssuers(c *Config, origins Origins) {
	for i := range c.OAuthIssuers {
		o := &c.OAuthIssuers[i]
		given := func(key string) bool { _, there := origins[fmt.Sprintf("oauth_issuers[%d].%s", i, key)]; return there }
		if !given("algorithms") {
			o.Algorithms = []string{"RS256", "ES256"}
		}
		if !given("subject_claim") {
			o.SubjectClaim = "sub"
		}
		if !given("groups_claim") {
			o.GroupsClaim = "groups"
		}
	}
}

func (k *checker) oauthIssuers(c *Config) {
	seen := map[string]bool{}
	for i, o := range c.OAuthIssuers {
		each := fmt.Sprintf("oauth_issuers[%d]", i)
		k.issuer(each+".issuer", o.Issuer)
		if seen[o.Issuer] {
			k.find(each+".issuer", "is "+quote(o.Issuer)+" for the second time", "name each issuer once")
		}
		seen[o.Issuer] = true
		if o.Audience == "" || len(o.Audience) > 512 {
			k.find(each+".audience", "is missing or longer than 512 bytes", `set it to what the issuer writes into "aud" of tokens for this gateway, such as "https://gateway.example:7443/mcp"`)
		}
		k.signatures(each+".algorithms", o.Algorithms)
		if o.JWKSURI != "" {
			k.jwks(each+".jwks_uri", o.JWKSURI)
		}
		k.hosts(each+".allowed_hosts", o.AllowedHosts)
		for key, claim := range map[string]string{"subject_claim": o.SubjectClaim, "groups_claim": o.GroupsClaim} {
			if !claimForm.MatchString(claim) {
				k.find(each+"."+key, "is "+quote(claim), "name a claim of the issuer's access tokens")
			}
		}
		if len(o.Members) == 0 {
			k.find(each+".members", "is empty, so that every token is refused", `add [[oauth_issuers.members]] with subject = "SUBJECT", acts_as = "user:NAME" and scopes = ["tool.call"]`)
		}
		for j, m := range o.Members {
			k.oauthMember(fmt.Sprintf("%s.members[%d]", each, j), m)
		}
	}
}

// signatures wants algorithms with which nobody but the issuer can sign.
func (k *checker) signatures(key string, algorithms []string) {
	if len(algorithms) == 0 {
		k.find(key, "is empty", `name those of the provider, such as "RS256"`)
	}
	for _, a := range algorithms {
		if !slices.Contains(signatures, a) {
			k.find(key, "has "+quote(a)+", with which others than the provider could sign", "use some of "+strings.Join(signatures, ", "))
		}
	}
}

func (k *checker) jwks(key, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !dnsname.Loopback(u.Hostname())) {
		k.find(key, "is "+quote(text), "set it to the https URL of the issuer's key set, or leave it out: the issuer's metadata names it")
	}
}

func (k *checker) oauthMember(each string, m OAuthMember) {
	if (m.Subject == "") == (m.Group == "") || len(m.Subject) > 255 || len(m.Group) > 256 {
		k.find(each, "names no subject and no group, both, or one that is too long", `set subject = "..." for one, or group = "..." for all of a group`)
	}
	p, err := access.ParsePrincipal(m.ActsAs)
	switch {
	case err != nil || p.Kind != access.KindUser && p.Kind != access.KindAgent:
		k.find(each+".acts_as", "is "+quote(m.ActsAs), `use "user:NAME" or "agent:NAME"`)
	case m.Group != "" && p.Kind == access.KindUser:
		k.find(each+".acts_as", "is "+quote(m.ActsAs)+", and whoever is in the group would act as that person", "map a person by subject, and a group to an agent")
	}
	if len(m.Scopes) == 0 {
		k.find(each+".scopes", "is empty, so that its tokens could do nothing", `name what they are for, such as "tool.call" and "tool.list"`)
	}
	for _, s := range m.Scopes {
		switch {
		case !slices.Contains(access.Permissions, access.Permission(s)):
			k.find(each+".scopes", "has "+quote(s)+", which is no permission", "docs/access.md lists the permissions")
		case slices.Contains(access.NeverByToken, access.Permission(s)):
			k.find(each+".scopes", "has "+quote(s)+", which takes a device", "leave it out: no token answers approvals or changes who may do what")
		}
	}
}

// Evaluator may ask what others may do (AuthZEN).
type Evaluator struct {
	// Caller is the member that asks: "agent:NAME" or "user:NAME".
	Caller string `toml:"caller"`
	// Subjects are the members that it may ask about.
	Subjects []string `toml:"subjects"`
}

func (k *checker) evaluators(c *Config) {
	seen := map[string]bool{}
	for i, e := range c.Evaluators {
		each := fmt.Sprintf("evaluators[%d]", i)
		k.member(each+".caller", e.Caller)
		if seen[e.Caller] {
			k.find(each+".caller", "is "+quote(e.Caller)+" for the second time", "name all its subjects in one place")
		}
		seen[e.Caller] = true
		if len(e.Subjects) == 0 {
			k.find(each+".subjects", "is empty, so that it may ask about nobody", `name members, such as "agent:coder"`)
		}
		for _, s := range e.Subjects {
			k.member(each+".subjects", s)
		}
	}
}

// member wants a user or an agent by name.
func (k *checker) member(key, text string) {
	if p, err := access.ParsePrincipal(text); err != nil || p.Kind != access.KindUser && p.Kind != access.KindAgent {
		k.find(key, "is "+quote(text), `use "user:NAME" or "agent:NAME"`)
	}
}
