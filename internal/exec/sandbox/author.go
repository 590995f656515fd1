package sandbox

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxAuthorBytes bounds each field of an Author.
const maxAuthorBytes = 256

// Author is whom git names in commits where a repository does not name somebody
// itself. A field that is "" is not set.
type Author struct{ Name, Email string }

// Fit returns a without what is too long, not UTF-8 or has control characters. A
// field is never shortened: a shorter address is somebody else's.
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

// GitConfig is a configuration file of git that sets what is fit of the author and
// nothing else; "" when nothing is.
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

// GitConfig is the configuration of git that a run has beside that of its repository, "" for none.
func (s Spec) GitConfig() string {
	text := s.Author.GitConfig()
	if slices.ContainsFunc(s.Toolchains, func(t Toolchain) bool { return t.Git }) {
		text += "[safe]\n\tdirectory = *\n"
	}
	return text
}

// quoteGit writes a value as git reads it back: in quotes, only these two
// characters and control characters mean something.
func quoteGit(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
