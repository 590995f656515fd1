package config

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/dnsname"
	"palyra/internal/core/lazyregexp"
)

// OIDC configures logins (`palyra login`) at an OpenID Connect provider (docs/login.md). Changes
// take effect at a restart.
//
//	[oidc]
//	issuer = "https://id.example.com/realms/main"
//	client_id = "palyra"
//	client_secret_file = "~/.config/palyra/oidc-secret"
//
//	[[oidc.groups]]
//	group = "palyra-approvers"
//	roles = ["operator"]
type OIDC struct {
	// Issuer is the provider, as its ID tokens name it: an `https` URL, or `http` to this machine.
	// Its discovery document must name the same issuer. `""` disables logins.
	Issuer string `toml:"issuer"`
	// ClientID is the gateway's client id at the provider. ID tokens for another client are
	// refused.
	ClientID string `toml:"client_id"`
	// ClientSecretFile is a file of mode 0600 with the client's secret, read at each use. Without
	// it the client is public, and PKCE alone binds codes to logins.
	ClientSecretFile string `toml:"client_secret_file" path:"true"`
	// Scopes are the scopes that are requested. `openid` must be one of them.
	Scopes []string `toml:"scopes"`
	// UsernameClaim is the claim with the member's name (1 to 63 of `a-z`, `0-9`, `.`, `_`, `-`).
	// It is used at the first login only; later logins are identified by their subject. With
	// `email`, the provider must have verified the address.
	UsernameClaim string `toml:"username_claim"`
	// UsernameDomain is the domain that must follow the `@` of the name, and is removed: with
	// `example.com`, `ann@example.com` becomes `ann`, and people of other domains are refused.
	UsernameDomain string `toml:"username_domain"`
	// GroupsClaim is the claim with the person's groups: a list of texts, or one text.
	GroupsClaim string `toml:"groups_claim"`
	// Algorithms are the accepted signatures of ID tokens: `RS`, `PS` and `ES` with 256, 384 and
	// 512, and `EdDSA`. `none` and `HS256` cannot be set.
	Algorithms []string `toml:"algorithms"`
	// DeviceFlow admits people who confirm on another device (`palyra login --device`). It is off
	// by default, because an attacker who persuades a person to confirm a code is logged in as that
	// person.
	DeviceFlow bool `toml:"device_flow"`
	// MaxAge is the maximum age of the person's authentication at the provider; `0s` is no limit.
	// Range: 1 minute to 365 days.
	MaxAge time.Duration `toml:"max_age"`
	// Session is the lifetime of a login, which cannot be renewed. Range: 5 minutes to 24 hours.
	Session time.Duration `toml:"session"`
	// AllowOwner permits `oidc.groups` to assign the role `owner`. Administrators of the provider
	// can then create owners.
	AllowOwner bool        `toml:"allow_owner"`
	Groups     []OIDCGroup `toml:"groups"`
}

// OIDCGroup assigns roles to a group of the provider.
type OIDCGroup struct {
	// Group is a group, as ID tokens name it. A person in none of the groups is refused. Required.
	Group string `toml:"group"`
	// Roles are the roles of the group's people. The roles of several groups add up, and are
	// assigned at each login. Required.
	Roles []string `toml:"roles"`
}

// MaxSession is the maximum lifetime of a certificate.
const MaxSession = 24 * time.Hour

// signatures are the permitted signature algorithms of ID tokens (RFC 7518, section 3.1, and
// RFC 8037). Algorithms with a shared secret and "none" are excluded, because others than the
// provider could sign with them.
var signatures = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// ClientSecret reads the client's secret; it returns "" for a public client. Callers call it at
// each use, so that a new secret takes effect immediately. The error names the defect and the
// next step, and never contains the content.
func (o OIDC) ClientSecret() (string, error) {
	if o.ClientSecretFile == "" {
		return "", nil
	}
	file := privateFile{path: o.ClientSecretFile, kind: "client secret", holds: "secret", most: maxAPIKey, look: os.Stat}
	text, err := file.read()
	if err != nil {
		return "", err
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case secret == "":
		return "", file.problem("is empty", file.alone())
	case strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }):
		return "", file.problem("holds more than one line, or characters that are not ASCII", file.alone())
	}
	return secret, nil
}

var claimForm = lazyregexp.New(`^[A-Za-z0-9_.:/-]{1,128}$`)

func checkOIDC(k *checker, c *Config) {
	o := c.OIDC
	if o.Issuer == "" {
		o.checkDisabled(k)
		return
	}
	k.issuer("oidc.issuer", o.Issuer)
	if o.ClientID == "" || len(o.ClientID) > 256 {
		k.find("oidc.client_id", "is missing or longer than 256 bytes", "set it to the id of the client that the provider keeps for this gateway")
	}
	if o.ClientSecretFile != "" {
		k.absolute("oidc.client_secret_file", o.ClientSecretFile)
	}
	if !slices.Contains(o.Scopes, "openid") {
		k.find("oidc.scopes", `lacks "openid"`, `add it: the provider gives no ID token without`)
	}
	for _, claim := range []struct{ key, name string }{{"oidc.username_claim", o.UsernameClaim}, {"oidc.groups_claim", o.GroupsClaim}} {
		if !claimForm.MatchString(claim.name) {
			k.find(claim.key, "is "+quote(claim.name), "name a claim of the provider's ID tokens")
		}
	}
	if o.UsernameDomain != "" && !dnsname.Valid(o.UsernameDomain) {
		k.find("oidc.username_domain", "is "+quote(o.UsernameDomain), `use what stands behind the '@', such as "example.com"`)
	}
	k.signatures("oidc.algorithms", o.Algorithms)
	if o.MaxAge != 0 {
		between(k, "oidc.max_age", o.MaxAge, time.Minute, 365*24*time.Hour)
	}
	between(k, "oidc.session", o.Session, 5*time.Minute, MaxSession)
	checkOIDCGroups(k, c)
}

// checkDisabled finds other settings of oidc if no issuer is set.
func (o OIDC) checkDisabled(k *checker) {
	if o.ClientID != "" || o.ClientSecretFile != "" || len(o.Groups) > 0 || o.AllowOwner || o.DeviceFlow {
		k.find("oidc.issuer", "is missing, and other settings of oidc are there", "name the provider, or remove the other settings: logins are disabled")
	}
}

// issuer requires TLS, or a provider on this machine.
func (k *checker) issuer(key, issuer string) {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		k.find(key, "is "+quote(issuer), `set it to the provider's own name: "https://host" with an optional port and path`)
	case u.Scheme == "https" || u.Scheme == "http" && dnsname.Loopback(u.Hostname()):
	default:
		k.find(key, "is "+quote(issuer)+", which is not https", "use https: others on the network path could impersonate any user")
	}
}

func checkOIDCGroups(k *checker, c *Config) {
	if len(c.OIDC.Groups) == 0 {
		k.find("oidc.groups", "is empty, so logins are disabled", `add [[oidc.groups]] with group = "GROUP" and roles = ["ROLE"]`)
	}
	seen := map[string]bool{}
	for i, g := range c.OIDC.Groups {
		each := fmt.Sprintf("oidc.groups[%d]", i)
		if g.Group == "" || len(g.Group) > 256 {
			k.find(each+".group", "is missing or longer than 256 bytes", "set it to a group as the provider's ID tokens name it")
		} else if seen[g.Group] {
			k.find(each+".group", "is "+quote(g.Group)+" for the second time", "name all roles of a group in one place")
		}
		seen[g.Group] = true
		if len(g.Roles) == 0 {
			k.find(each+".roles", "is empty", `name the roles of the group, such as "operator"`)
		}
		for _, r := range g.Roles {
			k.mapped(each+".roles", access.Role(r), c)
		}
	}
}

// mapped requires a role for people, and owner only if the administrator confirms it with a second
// setting.
func (k *checker) mapped(key string, role access.Role, c *Config) {
	switch {
	case role == access.RoleAgent:
		k.find(key, `has "agent"`, "an agent acts for an owner; a user who has logged in can add one")
	case role == access.RoleOwner && !c.OIDC.AllowOwner:
		k.find(key, `has "owner", so the provider's administrator could create owners`, "leave it out, or set oidc.allow_owner = true if that is meant")
	case !slices.Contains(access.BuiltinRoles, role) && !slices.Contains(c.Roles, role):
		k.find(key, "has "+quote(string(role))+", which is not a role", "use a role that exists, or declare it in roles")
	}
}
