package seatbelt

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"palyra/internal/core/reason"
)

// checkText refuses text that is not allowed in a profile: control characters, which its parser
// may misinterpret, and invalid UTF-8.
func checkText(s string) error {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return reason.Errorf(reason.InvalidInput, "%q contains a control character or is not valid UTF-8, which a Seatbelt profile cannot express", s).
			WithRemedy("Use a path without such characters.")
	}
	return nil
}

// quote returns a string of the profile language.
func quote(s string) (string, error) {
	if err := checkText(s); err != nil {
		return "", err
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`, nil
}

// literal returns a part of a regular expression that matches only s. Bracket expressions need no
// backslash, whose meaning in #"" differs from that in "".
func literal(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case strings.ContainsRune(`.*+?()[]{}|$`, r):
			b.WriteString("[" + string(r) + "]")
		case r == '^', r == '\\', r == '"':
			// This character is not possible in a bracket expression, so any character matches.
			b.WriteByte('.')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// ligatures are characters that a case-insensitive file system treats as several letters.
var ligatures = []struct{ plain, letters string }{
	{"ffi", "ﬃ"}, {"ffl", "ﬄ"}, {"ff", "ﬀ"}, {"fi", "ﬁ"}, {"fl", "ﬂ"}, {"ss", "ßẞ"}, {"st", "ﬅﬆ"},
}

// maxLigatures limits the size of the result of folded, because each ligature doubles it.
const maxLigatures = 6

// folded returns a part of a regular expression that matches name as APFS and HFS+ compare it:
// regardless of case and composition. "*" stands for any part of a name and "?" for one
// character.
func folded(name string) (string, error) {
	name = norm.NFC.String(strings.ToLower(name))
	count := 0
	for i := range name {
		for _, l := range ligatures {
			if strings.HasPrefix(name[i:], l.plain) {
				count++
			}
		}
	}
	if count > maxLigatures {
		return "", reason.Errorf(reason.InvalidInput, "the protected name %q has too many spellings on a case-insensitive file system", name).
			WithRemedy("Use a shorter pattern, with a *.")
	}
	return spellings(name), nil
}

func spellings(name string) string {
	if name == "" {
		return ""
	}
	r, size := utf8.DecodeRuneInString(name)
	plain := spelling(r) + spellings(name[size:])
	var others []string
	for _, l := range ligatures {
		if rest, ok := strings.CutPrefix(name, l.plain); ok {
			others = append(others, "("+strings.Join(strings.Split(l.letters, ""), "|")+")"+spellings(rest))
		}
	}
	if others == nil {
		return plain
	}
	return "(" + plain + "|" + strings.Join(others, "|") + ")"
}

// spelling returns an expression that matches one character in every case and form.
func spelling(r rune) string {
	switch r {
	case '*':
		return "[^/]*"
	case '?':
		return "[^/]"
	}
	var forms []string
	for other := r; ; {
		forms = append(forms, literal(string(other)))
		if apart := norm.NFD.String(string(other)); apart != string(other) {
			forms = append(forms, literal(apart))
		}
		if other = unicode.SimpleFold(other); other == r {
			break
		}
	}
	if len(forms) == 1 {
		return forms[0]
	}
	return "(" + strings.Join(forms, "|") + ")"
}
