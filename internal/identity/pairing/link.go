package pairing

import (
	"encoding/base64"
	"net"
	"net/url"

	"palyra/internal/core/reason"
)

// Link is the content of a QR code.
type Link struct {
	// Address is host:port.
	Address string
	// CA is the SHA-256 of the gateway's root certificate in DER.
	CA    [32]byte
	Code  string
	Token string
}

const linkScheme, linkHost = "palyra", "pair"

// String returns the link as text, about 150 bytes: "palyra://pair?address=...".
func (l Link) String() string {
	q := url.Values{
		"address": {l.Address}, "ca": {base64.RawURLEncoding.EncodeToString(l.CA[:])},
		"code": {l.Code}, "token": {l.Token},
	}
	return (&url.URL{Scheme: linkScheme, Host: linkHost, RawQuery: q.Encode()}).String()
}

// IsLink reports whether a text has the scheme of a link.
func IsLink(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == linkScheme
}

// ParseLink parses a link. Every field must occur exactly once, and other fields are refused.
func ParseLink(text string) (Link, error) {
	bad := reason.Errorf(reason.InvalidInput, "this is not the link of a pairing code").
		WithRemedy("Copy the whole line that begins with palyra://pair? from `palyra pairing code --qr`.")
	u, err := url.Parse(text)
	if err != nil || u.Scheme != linkScheme || u.Host != linkHost || u.Path != "" || u.Fragment != "" || u.User != nil {
		return Link{}, bad
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(q) != 4 {
		return Link{}, bad
	}
	l := Link{Address: q.Get("address"), Code: q.Get("code"), Token: q.Get("token")}
	ca, err := base64.RawURLEncoding.Strict().DecodeString(q.Get("ca"))
	if err != nil || len(ca) != len(l.CA) {
		return Link{}, bad
	}
	l.CA = [32]byte(ca)
	token, err := base64.RawURLEncoding.Strict().DecodeString(l.Token)
	if err != nil || len(token) != tokenSize || l.Code == "" {
		return Link{}, bad
	}
	if _, _, err := net.SplitHostPort(l.Address); err != nil || l.String() != text {
		return Link{}, bad
	}
	return l, nil
}
