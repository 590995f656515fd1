package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"palyra/internal/core/access"
	"palyra/internal/core/dnsname"
)

// OAuthIssuer is an authorization server whose access tokens are accepted at the MCP server and its
// related routes (docs/oauth.md). Certificates and the gateway's own tokens do not need it.
//
//	[[oauth_issuers]]
//	issuer   = "https://id.example.com/realms/main"
//	audience = "https://gateway.example.com:7443/mcp"
//
//	[[oauth_issuers.members]]
//	subject = "f3b1c9d2-..."
//	acts_as = "user:ann"
//	scopes  = ["tool.list", "tool.call"]
type OAuthIssuer struct {
	// Issuer is the issuer, as its tokens and metadata name it: an `https` URL, or `http` to this
	// machine. Required.
	Issuer string `toml:"issuer"`
	// Audience is the value that `aud` of its tokens must contain. Tokens for another audience are
	// refused. Required.
	Audience string `toml:"audience"`
	// Algorithms are the accepted signatures: `RS`, `PS` and `ES` with 256, 384 and 512, and
	// `EdDSA`. `none` and `HS256` cannot be set. Default: `["RS256", "ES256"]`.
	Algorithms []string `toml:"algorithms"`
	// JWKSURI is the URL of its keys. If it is empty, the keys are found through its metadata
	// (OpenID Connect Discovery, then RFC 8414), which must name the same issuer.
	JWKSURI string `toml:"jwks_uri"`
	// AllowedHosts are host rules with a port that may be asked for metadata and keys, in addition
	// to the hosts of `oauth_issuers.issuer` and `oauth_issuers.jwks_uri`. A non-public address is
	// reached only if a rule or one of the two names that address. `http.denied_hosts` applies too.
	AllowedHosts []string `toml:"allowed_hosts"`
	// SubjectClaim is the claim that is compared with `oauth_issuers.members.subject`. Default:
	// `"sub"`.
	SubjectClaim string `toml:"subject_claim"`
	// GroupsClaim is the claim that is searched for `oauth_issuers.members.group`: a list of texts,
	// or one text. Default: `"groups"`.
	GroupsClaim string `toml:"groups_claim"`
	// AnyType also accepts tokens whose header lacks `typ: at+jwt` (RFC 9068), for issuers that
	// write `JWT` or nothing.
	AnyType bool `toml:"any_type"`
	// ScopesOfMembers gives a token the scopes of its mapping, whatever its claim `scope` contains.
	// Otherwise a scope must be in both.
	ScopesOfMembers bool          `toml:"scopes_of_members"`
	Members         []OAuthMember `toml:"members"`
}

// OAuthMember maps a subject or group of the issuer to a member.
type OAuthMember struct {
	// Subject is a subject of the issuer. Each mapping has a subject or a group.
	Subject string `toml:"subject"`
	// Group is a group of the issuer. It maps to an agent, because a person is one subject.
	Group string `toml:"group"`
	// ActsAs is the member that the token acts as, `user:NAME` or `agent:NAME`. Required.
	ActsAs string `toml:"acts_as"`
	// Scopes are the permissions that such a token can have at most, except permissions that need a
	// device. Required.
	Scopes []string `toml:"scopes"`
}

// fillIssuers sets the defaults of the issuers.
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

func checkOAuthIssuers(k *checker, c *Config) {
	seen := map[string]bool{}
	for i, o := range c.OAuthIssuers {
		each := fmt.Sprintf("oauth_issuers[%d]", i)
		k.issuer(each+".issuer", o.Issuer)
		if seen[o.Issuer] {
			k.find(each+".issuer", "is "+quote(o.Issuer)+" for the second time", "name each issuer once")
		}
		seen[o.Issuer] = true
		if o.Audience == "" || len(o.Audience) > 512 {
			k.find(each+".audience", "is missing or longer than 512 bytes", `set it to the "aud" of the issuer's tokens for this gateway, such as "https://gateway.example:7443/mcp"`)
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
			m.check(k, fmt.Sprintf("%s.members[%d]", each, j))
		}
	}
}

// signatures requires algorithms with which only the issuer can sign.
func (k *checker) signatures(key string, algorithms []string) {
	if len(algorithms) == 0 {
		k.find(key, "is empty", `name the provider's algorithms, such as "RS256"`)
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

func (m OAuthMember) check(k *checker, each string) {
	if (m.Subject == "") == (m.Group == "") || len(m.Subject) > 255 || len(m.Group) > 256 {
		k.find(each, "names no subject and no group, both, or one that is too long", `set subject = "..." for one, or group = "..." for all of a group`)
	}
	p, err := access.ParsePrincipal(m.ActsAs)
	switch {
	case err != nil || p.Kind != access.KindUser && p.Kind != access.KindAgent:
		k.find(each+".acts_as", "is "+quote(m.ActsAs), `use "user:NAME" or "agent:NAME"`)
	case m.Group != "" && p.Kind == access.KindUser:
		k.find(each+".acts_as", "is "+quote(m.ActsAs)+", and all members of the group would act as that person", "map a person by subject, and a group to an agent")
	}
	if len(m.Scopes) == 0 {
		k.find(each+".scopes", "is empty, so that its tokens could do nothing", `name scopes, such as "tool.call" and "tool.list"`)
	}
	for _, s := range m.Scopes {
		switch {
		case !slices.Contains(access.Permissions, access.Permission(s)):
			k.find(each+".scopes", "has "+quote(s)+", which is not a permission", "docs/reference/access.md lists the permissions")
		case slices.Contains(access.NeverByToken, access.Permission(s)):
			k.find(each+".scopes", "has "+quote(s)+", which takes a device", "leave it out: no token answers approvals or changes who may do what")
		}
	}
}

// Evaluator is a gateway that may ask which calls members may make, by AuthZEN (docs/authzen.md).
// The caller also needs the permission `access.evaluate_for`.
//
//	[[evaluators]]
//	caller   = "agent:edge-gateway"
//	subjects = ["agent:coder", "user:ann"]
type Evaluator struct {
	// Caller is the member that asks, `agent:NAME` or `user:NAME`. Required.
	Caller string `toml:"caller"`
	// Subjects are the members that it may ask about, by name, without wildcards. Required.
	Subjects []string `toml:"subjects"`
}

func checkEvaluators(k *checker, c *Config) {
	seen := map[string]bool{}
	for i, e := range c.Evaluators {
		each := fmt.Sprintf("evaluators[%d]", i)
		k.member(each+".caller", e.Caller)
		if seen[e.Caller] {
			k.find(each+".caller", "is "+quote(e.Caller)+" for the second time", "name all its subjects in one place")
		}
		seen[e.Caller] = true
		if len(e.Subjects) == 0 {
			k.find(each+".subjects", "is empty, so it may not ask about any member", `name members, such as "agent:coder"`)
		}
		for _, s := range e.Subjects {
			k.member(each+".subjects", s)
		}
	}
}

// member requires the name of a user or an agent.
func (k *checker) member(key, text string) {
	if p, err := access.ParsePrincipal(text); err != nil || p.Kind != access.KindUser && p.Kind != access.KindAgent {
		k.find(key, "is "+quote(text), `use "user:NAME" or "agent:NAME"`)
	}
}
