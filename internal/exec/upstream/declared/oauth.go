package declared

import (
	"net/url"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/vault"
)

// OAuth says how the gateway logs in at the authorization server of an upstream server.
type OAuth struct {
	// Issuer is the authorization server. "" takes the one that the upstream server
	// names, if that is on the host of the upstream server itself.
	Issuer string `json:"issuer,omitempty"`
	// ClientID is the gateway there: an id that somebody registered, or the https URL of
	// a client metadata document. "" has the gateway register itself (RFC 7591).
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is the reference of the client's secret ("global/x"), "" for none.
	ClientSecret string `json:"client_secret,omitempty"`
	// Scopes are those that are asked for; none are those that the server names.
	Scopes []string `json:"scopes,omitempty"`
	// Shared has one login serve everybody; else each member logs in.
	Shared bool `json:"shared,omitempty"`
}

// scopeForm is scope-token of RFC 6749, section 3.3.
var scopeForm = lazyregexp.New(`^[\x21\x23-\x5b\x5d-\x7e]{1,200}$`)

const (
	mostScopes   = 32
	mostClientID = 2048
)

// Document reports whether the client id is the URL of a client metadata document.
func (o OAuth) Document() bool { return strings.HasPrefix(o.ClientID, "https://") }

// ValidScopes reports whether all are scopes that can be asked for.
func ValidScopes(scopes []string) bool {
	return len(scopes) <= mostScopes && !slices.ContainsFunc(scopes, func(s string) bool { return !scopeForm.MatchString(s) })
}

// check refuses what cannot be asked for. headers are the other headers of the server.
func (o OAuth) check(server *url.URL, headers []string, shared bool) error {
	if server.Scheme != "https" {
		return invalid("oauth", "tokens travel by https alone")
	}
	if slices.Contains(headers, "Authorization") {
		return invalid("oauth", "the login fills the header Authorization, which holds a secret of the vault already")
	}
	if shared && !o.Shared {
		return invalid("oauth", "one instance for all principals cannot use the logins of single members").
			WithRemedy("Leave --shared out, or share the login with --oauth-shared.")
	}
	if o.Issuer != "" {
		u, err := url.Parse(o.Issuer)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(o.Issuer) > mostClientID {
			return invalid("oauth", "the issuer is https://host or https://host/path, as it calls itself")
		}
	}
	switch {
	case len(o.ClientID) > mostClientID || strings.ContainsFunc(o.ClientID, func(r rune) bool { return r <= ' ' || r > '~' }):
		return invalid("oauth", "a client id has at most %d printable characters", mostClientID)
	case o.ClientSecret != "" && (o.ClientID == "" || o.Document()):
		return invalid("oauth", "a client secret belongs to the id of a registered client")
	case !ValidScopes(o.Scopes):
		return invalid("oauth", "scopes are at most %d words of RFC 6749", mostScopes)
	case o.ClientSecret != "":
		ref, err := vault.ParseRef(o.ClientSecret)
		if err == nil && ref.Name() != o.ClientSecret {
			err = invalid("oauth", "the secret %q is written as %q", o.ClientSecret, ref.Name())
		}
		return err
	}
	return nil
}
