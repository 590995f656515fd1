package seatbelt

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// form is one expression of the profile language: an atom, a string, a regular
// expression, or a list.
type form struct {
	kind byte // 'a', 's', 'r' or 'l'
	text string
	list []form
}

// parse parses a profile like sandbox-exec: lists of atoms, strings with backslash escapes, and
// #"..." without escapes.
func parse(text string) ([]form, error) {
	forms, rest, err := parseList(text, false)
	if err == nil && rest != "" {
		err = errors.New("a parenthesis too many")
	}
	return forms, err
}

func parseList(text string, nested bool) (forms []form, rest string, err error) {
	for {
		text = strings.TrimLeft(text, " \n")
		switch {
		case text == "":
			if nested {
				return nil, "", errors.New("a list does not end")
			}
			return forms, "", nil
		case text[0] == ')':
			if !nested {
				return forms, text, nil
			}
			return forms, text[1:], nil
		case text[0] == '(':
			var inner []form
			if inner, text, err = parseList(text[1:], true); err != nil {
				return nil, "", err
			}
			forms = append(forms, form{kind: 'l', list: inner})
		case strings.HasPrefix(text, `#"`):
			inner, after, ok := strings.Cut(text[2:], `"`)
			if !ok {
				return nil, "", errors.New("an expression does not end")
			}
			forms, text = append(forms, form{kind: 'r', text: inner}), after
		case text[0] == '"':
			var value string
			if value, text, err = parseString(text[1:]); err != nil {
				return nil, "", err
			}
			forms = append(forms, form{kind: 's', text: value})
		default:
			end := strings.IndexAny(text, " \n()\"")
			if end < 0 {
				end = len(text)
			}
			forms, text = append(forms, form{kind: 'a', text: text[:end]}), text[end:]
		}
	}
}

func parseString(text string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:], nil
		case '\\':
			i++
			if i == len(text) {
				return "", "", errors.New("a string does not end")
			}
			if text[i] != '"' && text[i] != '\\' {
				return "", "", errors.New("an escape that means something else")
			}
		}
		b.WriteByte(text[i])
	}
	return "", "", errors.New("a string does not end")
}

// shape returns a profile without the content of its strings.
func shape(forms []form) string {
	var b strings.Builder
	for _, f := range forms {
		switch f.kind {
		case 'l':
			b.WriteString("(" + shape(f.list) + ")")
		case 'a':
			b.WriteString(f.text + " ")
		default:
			b.WriteByte(f.kind)
		}
	}
	return b.String()
}

// holds reports whether a string of the profile has that value.
func holds(forms []form, value string) bool {
	for _, f := range forms {
		if f.kind == 's' && f.text == value || holds(f.list, value) {
			return true
		}
	}
	return false
}

func parsed(t *testing.T, p profile) []form {
	t.Helper()
	text := must.Get(p.text())(t)
	forms, err := parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return forms
}

// rules lists the filters of all rules with an action, such as "allow file-write*", as text.
func rules(forms []form, action string) []string {
	var filters []string
	for _, f := range forms {
		var words []string
		for _, part := range f.list {
			if part.kind == 'a' {
				words = append(words, part.text)
			}
		}
		if strings.Join(words, " ") != action {
			continue
		}
		for _, part := range f.list {
			if part.kind == 'l' {
				filters = append(filters, written(part))
			}
		}
	}
	return filters
}

func written(f form) string {
	if f.kind != 'l' {
		return f.text
	}
	parts := make([]string, 0, len(f.list))
	for _, part := range f.list {
		parts = append(parts, written(part))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

// mentions reports whether an expression in f matches a name.
func mentions(f form, name string) bool {
	if f.kind == 'r' {
		return regexp.MustCompile(f.text).MatchString(name)
	}
	return slices.ContainsFunc(f.list, func(part form) bool { return mentions(part, name) })
}
