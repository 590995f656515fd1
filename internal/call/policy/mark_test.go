package policy

import (
	"strings"
	"testing"
)

const marked = `@id("m") @reason("m") forbid(principal, action, resource);`

// TestByteOrderMark: a policy file that begins with a byte-order mark loads, with the places of the
// same file without it. A mark elsewhere is an error.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		loads bool
	}{
		"without": {marked, true}, "before the file": {"\ufeff" + marked, true}, "before a comment": {"\ufeff// x\n" + marked, true},
		"twice": {"\ufeff\ufeff" + marked, false}, "within": {marked + "\n\ufeff" + marked, false},
	} {
		_, findings := build(Config{Sources: []Source{{Name: "m.cedar", Text: c.text}}}, Defaults())
		if (len(findings) == 0) != c.loads {
			t.Errorf("%s: %v", name, findings)
		}
	}
	_, findings := build(Config{Sources: []Source{{Name: "m.cedar", Text: "\ufefforbid(principal, action, resource);"}}}, Defaults())
	if len(findings) == 0 || findings[0].Line != 1 || findings[0].Column != 1 {
		t.Errorf("the place: %+v", findings)
	}
}

// TestTemplates: a Cedar template is refused by name. The control names a principal.
func TestTemplates(t *testing.T) {
	t.Parallel()
	for text, template := range map[string]bool{
		`@id("a") @reason("a") permit(principal == ?principal, action, resource);`:       true,
		`@id("a") @reason("a") permit(principal in ?principal, action, resource);`:       true,
		`@id("a") @reason("a") forbid(principal, action, resource == ?resource);`:        true,
		`@id("a") @reason("a") forbid(principal == User::"bob", action, resource);`:      false,
		`@id("a") @reason("a") forbid(principal, action, resource) when { principal ?};`: false,
	} {
		_, findings := build(Config{Sources: []Source{{Name: "t.cedar", Text: text}}}, Defaults())
		messages := ""
		for _, f := range findings {
			messages += f.Message + "\n"
		}
		if strings.Contains(messages, "Cedar templates are not supported") != template {
			t.Errorf("%s: %s", text, messages)
		}
	}
}
