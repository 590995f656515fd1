package web

import (
	"net/http"
	"slices"
	"strings"

	"palyra/internal/egress"
)

// client is the connection of one client. It judges which requests of the client are allowed.
type client struct {
	front  Front
	scheme scheme
	// serverName is the server name in the client's TLS hello, "" for an address.
	serverName string
	// tap is the client's connection, nil for HTTP/2.
	tap *tap
}

// judge returns the target of a request, or an error if the request is not allowed.
func (c client) judge(r *http.Request) (egress.Target, error) {
	t, err := c.target(r)
	if wrong := c.checkHead(r, t); err == nil {
		err = wrong
	}
	for _, check := range []func(*http.Request, egress.Target) error{
		checkMethod, c.checkForm, c.checkAuthority, checkUpgrade, c.checkRules,
	} {
		if err == nil {
			err = check(r, t)
		}
	}
	return t, err
}

// target returns the target of the request. For a proxy that is the target in the URL, or the zero
// Target if the URL does not name one.
func (c client) target(r *http.Request) (egress.Target, error) {
	if c.front.Target != (egress.Target{}) {
		return c.front.Target, nil
	}
	var none egress.Target
	if r.Method == http.MethodConnect {
		return none, refused(none, egress.ReasonMethod, "CONNECT has to be the first request of a connection.")
	}
	if r.URL.Scheme != "http" {
		return none, refused(none, egress.ReasonBadHTTP, "Write http:// and the host before the path, and use CONNECT for https.")
	}
	t, err := parseAuthority(r.URL.Host, 80)
	if err != nil {
		return none, refused(none, egress.ReasonBadHTTP, "%v", err)
	}
	return t, nil
}

// checkMethod refuses methods that a server behind a gateway must not receive. TRACE would return
// the header as the server received it.
func checkMethod(r *http.Request, t egress.Target) error {
	switch {
	case r.Method == "PRI": // the preface of HTTP/2 (RFC 9113 section 3.4)
		return refused(t, egress.ReasonUpgrade, "HTTP/2 without TLS is not possible.")
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		return refused(t, egress.ReasonMethod, "%s is never allowed.", r.Method)
	}
	return nil
}

// checkForm refuses request targets that could be read in two ways.
func (c client) checkForm(r *http.Request, t egress.Target) error {
	switch {
	case r.RequestURI == "*":
		return refused(t, egress.ReasonPath, "A request is for a path, and not for the server as a whole.")
	case r.URL.IsAbs() && r.URL.Scheme != string(c.scheme):
		return refused(t, egress.ReasonBadHTTP, "The URL begins with %s:, and the connection is %s.", r.URL.Scheme, c.scheme)
	case r.URL.Opaque != "" || !r.URL.IsAbs() && !strings.HasPrefix(r.RequestURI, "/"):
		return refused(t, egress.ReasonBadHTTP, "The path does not begin with a slash.")
	case r.URL.User != nil:
		return refused(t, egress.ReasonBadHTTP, "The URL holds a user name.")
	case strings.ContainsFunc(r.RequestURI, func(c rune) bool { return c == '#' || c <= ' ' || c == 0x7f }):
		return refused(t, egress.ReasonBadHTTP, "The URL holds a fragment or a control character.")
	case r.ProtoMajor == 2 && r.TLS == nil:
		return refused(t, egress.ReasonBadHTTP, "The scheme is http, and the connection is https.")
	}
	return nil
}

// checkAuthority compares Host, or :authority, with the target and with the server name requested
// by TLS.
func (c client) checkAuthority(r *http.Request, t egress.Target) error {
	if r.Host == "" && r.ProtoMajor == 1 && r.ProtoMinor == 0 {
		return nil // HTTP/1.0 does not require Host; the outgoing request has one
	}
	for _, second := range r.Header["Host"] { // HTTP/2, in addition to :authority
		if err := c.checkHost(second, t); err != nil {
			return err
		}
	}
	if err := c.checkHost(r.Host, t); err != nil {
		return err
	}
	if c.scheme == https && !isNameOf(c.serverName, t.Host) {
		return refused(t, egress.ReasonHostMismatch, "TLS was asked for another name.")
	}
	return nil
}

// checkHost compares one host, with or without a port, with the target.
func (c client) checkHost(text string, t egress.Target) error {
	got, err := parseAuthority(text, c.scheme.defaultPort())
	switch {
	case err != nil:
		return refused(t, egress.ReasonHostMismatch, "%v", err)
	case got != t:
		return refused(t, egress.ReasonHostMismatch, "The request names %s. Send it over a connection of its own.", got)
	}
	return nil
}

// checkUpgrade allows only WebSocket. Other protocols could not be inspected after the switch.
func checkUpgrade(r *http.Request, t egress.Target) error {
	if len(r.Header["Upgrade"]) == 0 || webSocketKey(r) != "" {
		return nil
	}
	return refused(t, egress.ReasonUpgrade, "Only WebSocket is possible, by a whole handshake of version 13.")
}

// checkRules checks a request by the rules of the host's inspection, if the host has one.
func (c client) checkRules(r *http.Request, t egress.Target) error {
	rules, inspected := c.front.Inspect(t)
	if !inspected {
		return nil
	}
	if len(rules.Methods) > 0 && !slices.Contains(rules.Methods, r.Method) {
		return refused(t, egress.ReasonMethod, "Allowed: %s.", egress.Named(rules.Methods))
	}
	if len(rules.Paths) > 0 {
		if problem := pathProblem(r.URL); problem != "" {
			return refused(t, egress.ReasonPath, "%s", problem)
		}
		if !slices.ContainsFunc(rules.Paths, func(pattern string) bool { return matchPath(pattern, r.URL.Path) }) {
			return refused(t, egress.ReasonPath, "Allowed: %s.", egress.Named(rules.Paths))
		}
	}
	return checkOverrides(r, t, rules)
}
