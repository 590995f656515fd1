package resource

import "strings"

// defaultPorts are the default ports of issuers' schemes.
var defaultPorts = map[string]string{"https": ":443", "http": ":80"}

// SameIssuer reports whether two URLs of issuers are equivalent by the scheme-based
// normalization of RFC 3986, section 6.2.3: the port of the scheme may be written or left out,
// and so may the path of a root. Nothing else is normalized: a server may tell apart what
// differs in the case of letters, in percent-encoding or in a slash behind a path.
func SameIssuer(a, b string) bool { return normalized(a) == normalized(b) }

// normalized is the one form of equivalent URLs. A text that is not a URL of a known scheme is
// its own form, and so is one with a user.
func normalized(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	port, known := defaultPorts[scheme]
	if !ok || !known {
		return url
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, path := rest[:end], rest[end:]
	if strings.Contains(host, "@") {
		return url
	}
	if bare, written := strings.CutSuffix(host, port); written {
		host = bare
	} else {
		host = strings.TrimSuffix(host, ":")
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return scheme + "://" + host + path
}
