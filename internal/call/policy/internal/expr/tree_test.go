package expr

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy/finding"
)

// laid has every construct of the language. Some have the text at the position of the outermost
// node.
var laid = []struct{ text, at string }{
	{`true`, "true"},
	{`principal == User::"ann"`, "=="},
	{`(((context.risk))) + 1 > -3`, ">"},
	{`- context.risk < --2`, "<"},
	{`!!(context.protected)`, "!"},
	{`context["args"]["p q"] like "a*\"b"`, "like"},
	{`context has args`, "args"},
	{`context has "args"`, `"args"`},
	{`context has exec.path`, "path"},
	{`context has exec.path && context.exec.path == "x"`, "&&"},
	{`(context has a.b.c) || false`, "||"},
	{`if context.risk > 1 then principal is User else principal is Agent in User::"x"`, "if"},
	{`principal in [User::"a", User::"b"]`, "in"},
	{`[1, 2, (3)].contains(context.risk)`, "contains"},
	{`context.x.containsAny(["a"]) && context.x.containsAll([])`, "&&"},
	{`context.x.isEmpty()`, "isEmpty"},
	{`{a: 1, "b c": {d: true}}.a == 1`, "=="},
	{`ip("10.0.0.1").isInRange(ip("10.0.0.0/8"))`, "isInRange"},
	{`context.now.offset(duration("1h")) < datetime("2026-01-01")`, "<"},
	{`decimal("1.2").lessThan(decimal("1.3"))`, "lessThan"},
	{`principal.hasTag("a") && principal.getTag("a") == "x"`, "&&"},
	{`resource == Ns::Inner::Tool::"x"`, "=="},
	{`context.when.unless == "when"`, "=="},
	{`1 - 2 * 3 - -4 == 0`, "=="},
}

func TestTreePositions(t *testing.T) {
	t.Parallel()
	for _, c := range laid {
		for _, policy := range []string{
			"@id(\"when\") permit(principal, action, resource) when { " + c.text + " };",
			"// when\n@reason(\"unless { }\") forbid(principal is User in Role::\"owner\", action in [Action::\"a\"], resource)\n" +
				"unless { (" + c.text + ") } when { " + c.text + " };",
		} {
			policies, findings := Parse("t", policy, false)
			if len(policies) != 1 || finding.HasErrors(findings) {
				t.Errorf("%s: %v", policy, findings)
				continue
			}
			p := policies[0]
			starts := p.clauseStarts()
			for i, cond := range p.AST.Conditions {
				l := &layer{tokens: p.Tokens, at: starts[i] + 1}
				if root := l.lay(cond.Body); l.lost || root.At.Text != c.at {
					t.Errorf("%s: laid at %q (lost: %v), want %q", policy, root.At.Text, l.lost, c.at)
				}
				for _, rest := range p.Tokens[l.at:] {
					if rest.Text == "}" {
						break
					}
					if !silent(rest) {
						t.Errorf("%s: %q was not laid", policy, rest.Text)
					}
				}
			}
		}
	}
}

func TestPlacesInUnicode(t *testing.T) {
	t.Parallel()
	tokens, errs := Tokenize("/* öä */ \"é\" x\r\n\ty // z\n\"a\\\"b\" ::")
	var got []string
	for _, tok := range tokens {
		got = append(got, strings.Join([]string{tok.Text, string(rune('0' + tok.line)), string(rune('0' + tok.column))}, " "))
	}
	want := `["é" 1 : x 1 > y 2 2 "a\"b" 3 1 :: 3 8]`
	if s := "[" + strings.Join(got, " ") + "]"; s != want || len(errs) > 0 {
		t.Errorf("got %s, %v, want %s", s, errs, want)
	}
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, want string }{
		{"rsk", "did you mean risk?"}, {"hsot", "did you mean host?"}, {"xyz", ""}, {"a", ""},
		{"capabilites", "did you mean capabilities?"}, {"risk", ""},
	} {
		if got := finding.DidYouMean(c.name, []string{"risk", "host", "capabilities", "path"}); got != c.want {
			t.Errorf("didYouMean(%q) = %q, want %q", c.name, got, c.want)
		}
	}
}

// TestConstants: the constants that a condition names are found, also if they are compared with
// a variable, which has no value outside an evaluation. No construct of the language panics.
func TestConstants(t *testing.T) {
	t.Parallel()
	of := func(text string) (out []string) {
		policies, findings := Parse("a.cedar", "permit(principal, action, resource) when { "+text+" };", false)
		if len(findings) > 0 || len(policies) != 1 {
			t.Fatalf("%s: %v", text, findings)
		}
		for _, v := range policies[0].Constants() {
			out = append(out, string(v.MarshalCedar()))
		}
		return out
	}
	for _, l := range laid {
		of(l.text)
	}
	for text, want := range map[string][]string{
		`principal != User::"a"`:                       {`User::"a"`},
		`principal in [Role::"a"]`:                     {`Role::"a"`, `[Role::"a"]`},
		`context.args.path == "x" && 1 < context.risk`: {`"x"`, "1"},
	} {
		if got := of(text); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
