package resource

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"palyra/internal/core/canonical"
	"palyra/internal/core/text"
	"palyra/internal/identity/login"
)

// skew is the permitted difference between the issuer's clock and the gateway's.
const skew = time.Minute

// maxText limits the text of a token that a message repeats, and maxSubject a subject (OpenID
// Connect Core 1.0, section 2), in bytes.
const (
	maxText    = 300
	maxSubject = 255
)

// verified is the content of a token whose signature was verified.
type verified struct {
	subject string
	// client is the OAuth client to which the token was issued, or "".
	client  string
	groups  []string
	scopes  []string
	expires time.Time
}

// claimedIssuer returns the unverified issuer of a token, or "" if it is not a JWT.
func claimedIssuer(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var c login.Claims
	if err != nil || canonical.Read(payload, &c) != nil {
		return ""
	}
	return c.Text("iss")
}

// typ returns the type in the header of a token (RFC 7515, section 4.1.9), in its short form.
func typ(token string) string {
	header, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(header)
	var h login.Claims
	if err != nil || canonical.Read(text, &h) != nil {
		return ""
	}
	return strings.TrimPrefix(strings.ToLower(h.Text("typ")), "application/")
}

// verify checks a token according to RFC 9068, section 4: type, issuer, audience, algorithm and
// signature, and time. claimed is the token's spelling of the issuer.
func (i *issuer) verify(ctx context.Context, claimed, token string, now time.Time) (verified, error) {
	switch t := typ(token); {
	case t != "at+jwt" && (i.TypedTokens || t != "" && t != "jwt"):
		return verified{}, refused("its type is %q, and not at+jwt", text.Ellipsis(t, maxText))
	}
	read, err := oidc.NewVerifier(claimed, i.keys, &oidc.Config{
		ClientID: i.Audience, SupportedSigningAlgs: i.Algorithms, Now: func() time.Time { return now },
	}).Verify(ctx, token)
	if err != nil {
		if away := i.keys.away(); away != nil {
			return verified{}, away
		}
		return verified{}, refused("%s", text.Ellipsis(err.Error(), maxText))
	}
	var c login.Claims
	if err := read.Claims(&c); err != nil {
		return verified{}, refused("it is not a JSON object")
	}
	v := verified{subject: c.Text(i.SubjectClaim), client: c.Text("client_id"), groups: c.List(i.GroupsClaim), scopes: scopes(c), expires: read.Expiry}
	if v.client == "" {
		v.client = c.Text("azp")
	}
	switch {
	case v.subject == "" || len(v.subject) > maxSubject:
		return v, refused("its claim %s does not have 1 to %d bytes", i.SubjectClaim, maxSubject)
	case after(c, "nbf", now) || after(c, "iat", now):
		return v, refused("it is not valid yet").WithRemedy("Ask an administrator to correct the clocks of the gateway and of the issuer.")
	case c["cnf"] != nil:
		return v, refused("it is bound to a key of its client (cnf), which this gateway does not check")
	}
	return v, nil
}

// after reports whether a time claim of a token is in the future or invalid.
func after(c login.Claims, name string, now time.Time) bool {
	raw, there := c[name]
	if !there {
		return false
	}
	var at float64
	if json.Unmarshal(raw, &at) != nil || math.Abs(at) > 1e12 {
		return true
	}
	return time.Unix(int64(at), 0).After(now.Add(skew))
}

// scopes returns a token's scopes: "scope" (RFC 8693, section 4.2), or "scp", which some issuers
// use.
func scopes(c login.Claims) []string {
	var list []string
	for _, s := range slices.Concat(c.List("scope"), c.List("scp")) {
		list = append(list, strings.Fields(s)...)
	}
	return list
}
