package web

import (
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// pathProblem returns the defect of a path to which path rules apply, or "". A rule matches the
// unescaped path, so every server must derive the same path from it. It refuses empty segments,
// "." and ".."; backslashes and semicolons, plain or escaped; and escapes of control
// characters, of a slash or a percent sign, and of the unreserved characters of RFC 3986
// section 2.3. Some servers treat a semicolon as the start of parameters and drop them. Some
// decode the escape of a slash or a percent sign twice or not at all. Invalid UTF-8 is refused
// because some servers decode a dot or a slash from it, and characters that have another form,
// such as a full-width dot, because some servers replace them (UAX 15).
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
	if hasOtherForm(u.Path) {
		return "The path has a character with another form, such as a full-width one, which could be read in two ways."
	}
	segments := strings.Split(strings.TrimPrefix(sent, "/"), "/")
	for i, segment := range segments {
		if segment == "." || segment == ".." || segment == "" && i < len(segments)-1 {
			return "The path has an empty segment, or one of dots."
		}
	}
	return ""
}

// hasOtherForm reports whether Unicode normalization could change a path to another one. Composed
// and decomposed text (ä in one or two characters) is accepted as it is, because both have the
// same segments under every form.
func hasOtherForm(p string) bool {
	return norm.NFKD.String(p) != norm.NFD.String(p) || norm.NFC.String(p) != p && norm.NFD.String(p) != p
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

// matchPath reports whether a path without escapes matches a pattern of path.Match; a final "/**"
// matches everything below. An invalid pattern matches nothing.
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
