package resource

import "strings"

// defaultPorts are the default ports of issuers' schemes.
var defaultPorts = map[string]string{"https": ":443", "http": ":80"}

// SameIssuer reports whether two URLs of issuers are equivalent by the scheme-based
// normalization of RFC 3986, section 6.2.3: the default port and the path "/" may be omitted.
// SameIssuer applies no other normalization, because a server may distinguish the case of
// letters, percent-encodings or a slash at the end of a path.
func SameIssuer(a, b string) bool { return normalized(a) == normalized(b) }

// normalized returns the common form of equivalent URLs. It returns a text unchanged if it is
// not a URL of a known scheme, or if it has a user.
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
