package web

import (
	"net/url"
	"path"
	"strings"
	"unicode/utf8"
)

// pathProblem says what is wrong with a path where rules about paths hold, ""
// when nothing is. A rule is matched on the path with its escapes undone, so
// that must be the one path that any server can take it for. Refused are empty
// segments, "." and "..", backslashes and semicolons (which some servers take
// for parameters and leave out), in the clear or escaped, and escapes of
// characters that need none: of a slash or a percent sign, which some servers
// undo twice or not at all, of control characters, and of what RFC 3986 section
// 2.3 calls unreserved. What is not UTF-8 is refused, too: some servers read a
// dot or a slash in it.
func pathProblem(u *url.URL) string {
	sent := u.EscapedPath()
	for i := range len(sent) {
		if sent[i] != '%' {
			continue
		}
		// EscapedPath has two hexadecimal digits behind every percent sign.
		if c := unhex(sent[i+1])<<4 | unhex(sent[i+2]); c < 0x20 || c == 0x7f || strings.IndexByte(`/\%;.`, c) >= 0 || unreserved(c) {
			return "The path has the escape " + sent[i:i+3] + ", which could be read in two ways."
		}
	}
	if strings.ContainsAny(sent, `\;`) {
		return "The path has a backslash or a semicolon, which could be read in two ways."
	}
	if !utf8.ValidString(u.Path) {
		return "The path is not UTF-8 when its escapes are undone."
	}
	segments := strings.Split(strings.TrimPrefix(sent, "/"), "/")
	for i, segment := range segments {
		if segment == "." || segment == ".." || segment == "" && i < len(segments)-1 {
			return "The path has an empty segment, or one of dots."
		}
	}
	return ""
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// matchPath reports whether a path without escapes matches a pattern of
// path.Match, in which a last "/**" stands for everything below. A pattern that
// is none matches nothing.
func matchPath(pattern, p string) bool {
	if p == "" {
		p = "/"
	}
	base, deep := strings.CutSuffix(pattern, "/**")
	if !deep {
		ok, err := path.Match(pattern, p)
		return ok && err == nil
	}
	// The part of the path with as many slashes as the pattern has before /**.
	rest := p
	at := 0
	for range strings.Count(base, "/") + 1 {
		i := strings.IndexByte(rest[at:], '/')
		if i < 0 {
			return false
		}
		at += i + 1
	}
	ok, err := path.Match(base, p[:at-1])
	return ok && err == nil
}
