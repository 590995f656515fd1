package shellwords

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// literalOf returns the value that a shell passes for a word, if that is certain.
func literalOf(parts []syntax.WordPart) (string, bool) {
	var u unquoter
	for _, part := range parts {
		ok := false
		switch p := part.(type) {
		case *syntax.Lit:
			ok = u.bare(p.Value)
		case *syntax.SglQuoted:
			ok = !p.Dollar
			u.out.WriteString(p.Value)
		case *syntax.DblQuoted:
			ok = !p.Dollar && u.double(p.Parts)
		}
		if !ok {
			return "", false
		}
	}
	text := u.out.String()
	// A lone [ is the name of a command, not a pattern.
	return text, u.pattern == "" || u.pattern == "[" && text == "["
}

// unquoter removes the quotes of a word.
type unquoter struct {
	out strings.Builder
	// pattern holds the unquoted characters that begin a pattern.
	pattern string
}

// bare processes unquoted text. It returns false for text that may be expanded.
func (u *unquoter) bare(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch c {
		case '\\':
			i++
			if i == len(text) {
				return false
			}
			if text[i] != '\n' {
				u.out.WriteByte(text[i])
			}
			continue
		case '*', '?', '[':
			u.pattern += string(c)
		case '$', '`':
			return false
		case '{':
			// {} is not a brace list; find and xargs use it as a placeholder.
			if i+1 == len(text) || text[i+1] != '}' {
				return false
			}
		case '~':
			if before := u.out.String(); before == "" || strings.ContainsAny(before[len(before)-1:], "=:") {
				return false
			}
		}
		u.out.WriteByte(c)
	}
	return true
}

// double processes text in double quotes, where a backslash quotes only some characters.
func (u *unquoter) double(parts []syntax.WordPart) bool {
	for _, part := range parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			return false
		}
		for i := 0; i < len(lit.Value); i++ {
			c := lit.Value[i]
			if c == '$' || c == '`' {
				return false
			}
			if c == '\\' && i+1 < len(lit.Value) && strings.IndexByte("$`\"\\\n", lit.Value[i+1]) >= 0 {
				i++
				if c = lit.Value[i]; c == '\n' {
					continue
				}
			}
			u.out.WriteByte(c)
		}
	}
	return true
}
