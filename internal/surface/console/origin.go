package console

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"palyra/internal/core/dnsname"
	"palyra/internal/core/reason"
)

// Origin is the origin at which browsers reach the console: a scheme, a host name and a port.
// Cookies, storage and passkeys belong to it.
type Origin struct {
	Scheme, Host string
	// name is the host without its port.
	name string
}

// ParseOrigin parses an origin: https, or http with a name that only this machine can have.
func ParseOrigin(text string) (Origin, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme+"://"+u.Host != text || u.Hostname() == "" {
		return Origin{}, reason.Errorf(reason.ConfigInvalid, "the origin %q is not scheme://name:port", text).
			WithRemedy("Set console.origin to the origin alone, such as https://palyra.example.com:7145, or remove the setting.")
	}
	o := Origin{Scheme: u.Scheme, Host: u.Host, name: u.Hostname()}
	switch {
	case net.ParseIP(o.name) != nil || !dnsname.Valid(o.name) || o.name != strings.ToLower(o.name):
		return Origin{}, reason.Errorf(reason.ConfigInvalid, "the origin %q has no lower-case host name: browsers do not store passkeys for an address", text).
			WithRemedy("Set console.origin to one with a name, or remove the setting.")
	case o.Scheme == "https":
	case o.Scheme != "http" || o.name != "localhost" && !strings.HasSuffix(o.name, ".localhost"):
		return Origin{}, reason.Errorf(reason.ConfigInvalid, "the origin %q is neither https nor a loopback name", text).
			WithRemedy("Set console.origin to https://NAME:PORT with a certificate, or to http://localhost:PORT.")
	}
	return o, nil
}

// String returns the origin as browsers write it: without the default port of its scheme.
func (o Origin) String() string {
	host := o.Host
	if name, port, err := net.SplitHostPort(host); err == nil && (o.Scheme == "http" && port == "80" || o.Scheme == "https" && port == "443") {
		host = name
	}
	return o.Scheme + "://" + host
}

// Name returns the host name without the port, which is the RP ID of passkeys.
func (o Origin) Name() string { return o.name }

// host returns the Host header of browsers.
func (c *Console) host() string {
	_, host, _ := strings.Cut(c.Origin, "://")
	return host
}

// ownName reports whether a request was sent to a name of the gateway that is not canonical: an
// address of this machine, localhost, or a name of its certificate.
func (c *Console) ownName(r *http.Request) bool {
	name := r.Host
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		name = host
	}
	name = strings.Trim(name, "[]")
	return dnsname.Loopback(name) || c.Hosts != nil && c.Hosts(name)
}

// fromHere refuses requests that a page of another origin caused. Browsers send the header
// Origin, or else Sec-Fetch-Site.
func (c *Console) fromHere(r *http.Request) error {
	origins := r.Header.Values("Origin")
	switch {
	case len(origins) == 1 && origins[0] == c.Origin:
		return nil
	case len(origins) == 0 && r.Header.Get("Sec-Fetch-Site") == "same-origin":
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "the request does not come from a page of the console").
		WithRemedy("Use the console at %s; for programs, use the API at its own address.", c.Origin)
}
