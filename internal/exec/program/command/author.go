package command

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxAuthorBytes is the maximum length of each field of an Author.
const maxAuthorBytes = 256

// Author is the default git author of commits in repositories without one. A field that is "" is
// not set.
type Author struct{ Name, Email string }

// Fit returns a without fields that are too long, not UTF-8 or contain control characters. A
// field is never shortened, because a shortened address may belong to another person.
func (a Author) Fit() Author {
	if !fitAuthor(a.Name) {
		a.Name = ""
	}
	if !fitAuthor(a.Email) {
		a.Email = ""
	}
	return a
}

func fitAuthor(value string) bool {
	return len(value) <= maxAuthorBytes && utf8.ValidString(value) && !strings.ContainsFunc(value, unicode.IsControl)
}

// GitConfig returns a git configuration file with the valid fields of the author, "" if there are
// none.
func (a Author) GitConfig() string {
	a = a.Fit()
	var b strings.Builder
	for _, field := range []struct{ key, value string }{{"name", a.Name}, {"email", a.Email}} {
		if field.value != "" {
			b.WriteString("\t" + field.key + " = " + quoteGit(field.value) + "\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "[user]\n" + b.String()
}

// quoteGit quotes a value for git. Within quotes, only these two characters and control
// characters have a meaning.
func quoteGit(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
