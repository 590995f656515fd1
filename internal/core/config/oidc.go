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

// OIDC says which identity provider people log in at, by OpenID Connect.
type OIDC struct {
	// Issuer is the provider as its ID tokens name it; "" lets nobody log in.
	Issuer string `toml:"issuer"`
	// ClientID is the gateway at the provider. ClientSecretFile holds the client's
	// secret, and belongs to nobody but palyrad's user (mode 0600); "" for a public
	// client.
	ClientID         string `toml:"client_id"`
	ClientSecretFile string `toml:"client_secret_file" path:"true"`
	// Scopes are asked for; "openid" has to be one.
	Scopes []string `toml:"scopes"`
	// UsernameClaim holds the member's name, behind which UsernameDomain has to stand
	// if it is set: "@example.com".
	UsernameClaim  string `toml:"username_claim"`
	UsernameDomain string `toml:"username_domain"`
	GroupsClaim    string `toml:"groups_claim"`
	// Algorithms are the signatures of ID tokens that count.
	Algorithms []string `toml:"algorithms"`
	// DeviceFlow also lets people in who confirm on another device.
	DeviceFlow bool `toml:"device_flow"`
	// MaxAge is how long ago a person may have shown the provider who they are; 0 is
	// for ever.
	MaxAge time.Duration `toml:"max_age"`
	// Session is how long a login lasts.
	Session time.Duration `toml:"session"`
	// AllowOwner lets groups be mapped to the role owner.
	AllowOwner bool `toml:"allow_owner"`
	// Groups are the groups whose people may log in.
	Groups []OIDCGroup `toml:"groups"`
}

// OIDCGroup gives the people of a group of the provider roles.
type OIDCGroup struct {
	Group string   `toml:"group"`
	Roles []string `toml:"roles"`
}

// MaxSession is the longest life of a certificate.
const MaxSession = 24 * time.Hour

// signatures are the algorithms that ID tokens may have (RFC 7518, section 3.1, and
// RFC 8037). Those with a shared secret and "none" are not among them: with these,
// others than the provider could sign.
var signatures = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// ClientSecret reads the client's secret; "" is that of a public client. It is read at
// each use, so that a new one takes effect at once. The error says what is wrong and
// what to do, and never what the file holds.
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

func (k *checker) oidc(c *Config) {
	o := c.OIDC
	if o.Issuer == "" {
		k.withoutIssuer(o)
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
	k.oidcGroups(c)
}

// withoutIssuer finds settings of a provider that is not named.
func (k *checker) withoutIssuer(o OIDC) {
	if o.ClientID != "" || o.ClientSecretFile != "" || len(o.Groups) > 0 || o.AllowOwner || o.DeviceFlow {
		k.find("oidc.issuer", "is missing, and other settings of oidc are there", "name the provider, or leave the others out: nobody can log in")
	}
}

// issuer wants TLS, or a provider on this very machine.
func (k *checker) issuer(key, issuer string) {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		k.find(key, "is "+quote(issuer), `set it to what the provider calls itself: "https://host" with an optional port and path`)
	case u.Scheme == "https" || u.Scheme == "http" && dnsname.Loopback(u.Hostname()):
	default:
		k.find(key, "is "+quote(issuer)+", which is not https", "use https: whoever is between could vouch for anybody")
	}
}

func (k *checker) oidcGroups(c *Config) {
	if len(c.OIDC.Groups) == 0 {
		k.find("oidc.groups", "is empty, so that nobody can log in", `add [[oidc.groups]] with group = "GROUP" and roles = ["ROLE"]`)
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
			k.find(each+".roles", "is empty", `name what the people of the group are, such as "operator"`)
		}
		for _, r := range g.Roles {
			k.mapped(each+".roles", access.Role(r), c)
		}
	}
}

// mapped wants a role of people, and owner only where the administrator says so twice.
func (k *checker) mapped(key string, role access.Role, c *Config) {
	switch {
	case role == access.RoleAgent:
		k.find(key, `has "agent"`, "an agent acts for somebody; whoever logs in can add one")
	case role == access.RoleOwner && !c.OIDC.AllowOwner:
		k.find(key, `has "owner", and whoever administers the provider could then make owners`, "leave it out, or set oidc.allow_owner = true if that is meant")
	case !slices.Contains(access.BuiltinRoles, role) && !slices.Contains(c.Roles, role):
		k.find(key, "has "+quote(string(role))+", which is no role", "use a role that exists, or declare it in roles")
	}
}
