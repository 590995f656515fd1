package declared

import (
	"net/url"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/vault"
)

// OAuth configures the gateway's login at the authorization server of an upstream server.
type OAuth struct {
	// Issuer is the authorization server. "" selects the one that the upstream server names, if
	// it is on the same host as the upstream server.
	Issuer string `json:"issuer,omitempty"`
	// ClientID identifies the gateway: the id of a registered client, or the https URL of a
	// client metadata document. With "" the gateway registers itself (RFC 7591).
	ClientID string `json:"client_id,omitempty"`
	// ClientSecret is the vault reference of the client secret ("global/x"), "" for none.
	ClientSecret string `json:"client_secret,omitempty"`
	// Scopes are the scopes to request; an empty list requests the scopes that the server names.
	Scopes []string `json:"scopes,omitempty"`
	// Shared uses one login for all principals; otherwise each member logs in.
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

// ValidScopes reports whether all scopes have a valid form and their number is within the limit.
func ValidScopes(scopes []string) bool {
	return len(scopes) <= mostScopes && !slices.ContainsFunc(scopes, func(s string) bool { return !scopeForm.MatchString(s) })
}

// check validates the settings. headers are the other headers of the server.
func (o OAuth) check(server *url.URL, headers []string, shared bool) error {
	if server.Scheme != "https" {
		return invalid("oauth", "tokens are sent only over https")
	}
	if slices.Contains(headers, "Authorization") {
		return invalid("oauth", "the login sets the header Authorization, which is already declared with a secret of the vault")
	}
	if shared && !o.Shared {
		return invalid("oauth", "an instance for all principals cannot use logins of single members").
			WithRemedy("Omit --shared, or share the login with --oauth-shared.")
	}
	if o.Issuer != "" {
		u, err := url.Parse(o.Issuer)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(o.Issuer) > mostClientID {
			return invalid("oauth", "the issuer must be https://host or https://host/path, as in its metadata")
		}
	}
	switch {
	case len(o.ClientID) > mostClientID || strings.ContainsFunc(o.ClientID, func(r rune) bool { return r <= ' ' || r > '~' }):
		return invalid("oauth", "a client id has at most %d printable characters", mostClientID)
	case o.ClientSecret != "" && (o.ClientID == "" || o.Document()):
		return invalid("oauth", "a client secret requires the id of a registered client")
	case !ValidScopes(o.Scopes):
		return invalid("oauth", "scopes are at most %d scope tokens of RFC 6749", mostScopes)
	case o.ClientSecret != "":
		ref, err := vault.ParseRef(o.ClientSecret)
		if err == nil && ref.Name() != o.ClientSecret {
			err = invalid("oauth", "the secret %q must be written as %q", o.ClientSecret, ref.Name())
		}
		return err
	}
	return nil
}
