package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"palyra/internal/egress"
)

// overrideKind is the part of a request line that a header overrides.
type overrideKind int

// The kinds. A prefix header makes a server remove or add the beginning of the path, so that no
// single path is its meaning.
const (
	overridesMethod overrideKind = iota + 1
	overridesPath
	overridesPrefix
)

// overrides are headers by which some servers, gateways and frameworks replace the method or the
// path of the request line.
var overrides = map[string]overrideKind{
	"X-Http-Method": overridesMethod, "X-Http-Method-Override": overridesMethod, "Http-Method-Override": overridesMethod,
	"X-Method-Override": overridesMethod, "X-Method": overridesMethod, "X-Original-Method": overridesMethod, "X-Forwarded-Method": overridesMethod,

	"X-Original-Url": overridesPath, "X-Original-Uri": overridesPath, "X-Rewrite-Url": overridesPath, "X-Forwarded-Uri": overridesPath,
	"X-Forwarded-Path": overridesPath, "X-Http-Path-Override": overridesPath, "X-Envoy-Original-Path": overridesPath,
	"X-Accel-Redirect": overridesPath, "X-Request-Uri": overridesPath, "Request-Uri": overridesPath, "Path-Info": overridesPath,

	"X-Forwarded-Prefix": overridesPrefix, "X-Script-Name": overridesPrefix, "Script-Name": overridesPrefix,
}

// overrideOf returns the kind of a header, 0 for others. Servers that pass headers on as variables
// (RFC 3875 section 4.1.18) do not distinguish a hyphen from an underscore, and some replace every
// other character as well.
func overrideOf(name string) overrideKind {
	folded := strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '-'
	}, name)
	return overrides[http.CanonicalHeaderKey(folded)]
}

// checkOverrides judges the methods and paths that headers and the query name in place of the
// request line.
func checkOverrides(r *http.Request, t egress.Target, rules egress.Inspection) error {
	if err := checkQuery(r.URL.RawQuery, t, rules); err != nil {
		return err
	}
	for name, values := range r.Header {
		kind := overrideOf(name)
		for _, value := range values {
			if err := checkOverride(kind, name, value, t, rules); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOverride(kind overrideKind, name, value string, t egress.Target, rules egress.Inspection) error {
	switch {
	case kind == overridesMethod && !permitsMethod(rules, value):
		return refused(t, egress.ReasonMethod, "The header %s names a method. Allowed: %s.", name, egress.Named(rules.Methods))
	case kind == overridesPrefix && len(rules.Paths) > 0:
		return refused(t, egress.ReasonPath, "The header %s is not allowed.", name)
	case kind == overridesPath:
		if !permitsPath(rules, value) {
			return refused(t, egress.ReasonPath, "The header %s names a path. Allowed: %s.", name, egress.Named(rules.Paths))
		}
		_, query, _ := strings.Cut(value, "?")
		return checkQuery(query, t, rules)
	}
	return nil
}

// permitsMethod reports whether the rules allow a method as a header, a parameter or a form names
// it: in any case. An empty name leaves the method as it is.
func permitsMethod(rules egress.Inspection, name string) bool {
	return len(rules.Methods) == 0 || name == "" || slices.Contains(rules.Methods, strings.ToUpper(name))
}

// permitsPath reports whether the rules allow the path in a header. A comma could separate two
// paths for a server.
func permitsPath(rules egress.Inspection, value string) bool {
	if len(rules.Paths) == 0 {
		return true
	}
	u, err := url.ParseRequestURI(value)
	if err != nil || !strings.HasPrefix(value, "/") || strings.ContainsAny(value, ",#") {
		return false
	}
	return pathProblem(u) == "" && slices.ContainsFunc(rules.Paths, func(pattern string) bool { return matchPath(pattern, u.Path) })
}

// checkQuery judges the methods in the parameter _method of a query.
func checkQuery(query string, t egress.Target, rules egress.Inspection) error {
	if len(rules.Methods) == 0 {
		return nil
	}
	for _, pair := range strings.FieldsFunc(query, isSeparator) {
		if !permitsField(rules, pair) {
			return refused(t, egress.ReasonMethod, "The parameter _method names a method. Allowed: %s.", egress.Named(rules.Methods))
		}
	}
	return nil
}

// isSeparator reports whether a character ends a parameter. Some servers accept a semicolon.
func isSeparator(c rune) bool { return c == '&' || c == ';' }

// permitsField reports whether a parameter, in the encoding of forms, names no method or an
// allowed one.
func permitsField(rules egress.Inspection, pair string) bool {
	key, value, _ := strings.Cut(pair, "=")
	return !isMethodField(key) || permitsMethod(rules, unescape(value))
}

// isMethodField reports whether a server may read an encoded name of a parameter as "_method". PHP
// drops leading blanks, replaces dots, blanks and brackets by underscores, and ends names at a NUL.
func isMethodField(encoded string) bool {
	name, _, _ := strings.Cut(unescape(encoded), "\x00")
	name = fieldNameOf(name)
	if i := strings.IndexByte(name, '['); i > 0 {
		name = strings.TrimSpace(name[:i])
	}
	rest, found := strings.CutSuffix(name, "method")
	return found && len(rest) == 1 && strings.Contains("_. [", rest)
}

// beginsMethodField reports whether a name that begins like this may be that of a method field. A
// body of another kind, such as JSON, is then known after a few bytes.
func beginsMethodField(encoded string) bool {
	name := fieldNameOf(unescape(encoded))
	const whole = len("_method")
	return len(name) <= whole || strings.Contains("_. [", name[:1]) && name[1:whole] == "method"
}

func fieldNameOf(unescaped string) string { return strings.ToLower(strings.TrimSpace(unescaped)) }

// unescape undoes the encoding of forms like a lenient server: a percent sign without two digits
// behind it is kept.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b.WriteByte(' ')
		case s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteByte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
