package shellwords

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// lines formats commands with ? for words that are not literal.
func lines(s Script) []string {
	var out []string
	for _, c := range s.Commands {
		var words []string
		for _, w := range c.Words {
			text, literal := w.Literal()
			if !literal {
				text = "?"
			}
			words = append(words, text)
		}
		out = append(out, strings.Join(words, "|"))
	}
	return out
}

func redirects(s Script) []string {
	var out []string
	for _, r := range s.Redirects {
		text, literal := r.Target.Literal()
		if !literal {
			text = "?"
		}
		out = append(out, map[bool]string{true: ">", false: "<"}[r.Writes]+text)
	}
	return out
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text      string
		commands  []string
		redirects []string
		features  []Feature
		dynamic   bool
		// only, if set, is the only dialect of the case.
		only Dialect
	}{
		{text: ""},
		{text: "# nothing\n"},
		{text: "ls -la", commands: []string{"ls|-la"}},
		{text: "cat a | sort | uniq -c && rm -rf b || echo no; wc a &", commands: []string{"cat|a", "sort", "uniq|-c", "rm|-rf|b", "echo|no", "wc|a"}},
		{text: `r\m 'a b' "c d"'e'\ f`, commands: []string{"rm|a b|c de f"}},
		{text: "e\\\ncho a\\\nb", commands: []string{"echo|ab"}},
		{text: `p "a\$b\"c\d" 'a\b' ''`, commands: []string{`p|a$b"c\d|a\b|`}},
		{text: "(cd a; ls) && { pwd; }", commands: []string{"cd|a", "ls", "pwd"}},
		{text: "if a; then b; elif c; then d; else e; fi", commands: []string{"a", "b", "c", "d", "e"}},
		{text: "while a; do b; done; until c; do d; done", commands: []string{"a", "b", "c", "d"}},
		{text: "case x in a) b;; esac", commands: []string{"b"}},
		{text: "! a", commands: []string{"a"}},
		{text: "[ -f a ] && git show HEAD~1 a=b {}", commands: []string{"[|-f|a|]", "git|show|HEAD~1|a=b|{}"}},

		{text: "echo $HOME ${A:-b}", commands: []string{"echo|?|?"}, dynamic: true},
		{text: "$A b", commands: []string{"?|b"}, dynamic: true},
		{text: `echo "a$(rm b)c" x`, commands: []string{"echo|?|x", "rm|b"}, dynamic: true},
		{text: "echo `rm b`", commands: []string{"echo|?", "rm|b"}, dynamic: true},
		{text: "echo ${A:-$(rm b)} $((1 + $(id)))", commands: []string{"echo|?|?", "rm|b", "id"}, features: []Feature{Arithmetic}, dynamic: true},
		{text: "ls *.go a?", commands: []string{"ls|?|?"}, dynamic: true},
		{text: "ls [a-c]", commands: []string{"ls|?"}, dynamic: true},
		{text: "ls '*' \\* \"?\"", commands: []string{"ls|*|*|?"}},
		{text: "ls ~ ~root a=~ b:~/c '~' x~", commands: []string{"ls|?|?|?|?|~|x~"}, dynamic: true},
		{text: "rm {a,b}", commands: []string{"rm|?"}, dynamic: true},
		{text: "echo $'a' $\"b\"", commands: []string{"echo|?|?"}, dynamic: true},
		{text: "echo $ a$", commands: []string{"echo|?|?"}, dynamic: true},

		{text: "A=b", features: []Feature{Assignment}},
		{text: "A=b C=$D e f", commands: []string{"e|f"}, features: []Feature{Assignment}, dynamic: true},
		{text: "for A in b c; do d e; done", commands: []string{"d|e"}, features: []Feature{Assignment}},
		{text: "ls() { rm a; }; ls", commands: []string{"rm|a", "ls"}, features: []Feature{Function}},

		{text: "a > b 2>> c < d 3<> e", commands: []string{"a"}, redirects: []string{">b", ">c", "<d", ">e"}},
		{text: "> a", redirects: []string{">a"}},
		{text: "a 2>&1 >&2 3>&- <&4", commands: []string{"a"}},
		{text: "a > $B", commands: []string{"a"}, redirects: []string{">?"}, dynamic: true},
		{text: "cat <<E\na * b\nE\nls", commands: []string{"cat", "ls"}},
		{text: "cat <<E\n$(rm a)\nE", commands: []string{"cat", "rm|a"}, dynamic: true},
		{text: "cat <<'E'\n$(rm a)\nE", commands: []string{"cat"}},
		{text: "a 10> b", commands: []string{"a"}, redirects: []string{">b"}, features: []Feature{Other}, only: Posix},
		{text: "a 10> b", commands: []string{"a"}, redirects: []string{">b"}, only: Bash},
		{text: "a >&b", commands: []string{"a"}, redirects: []string{">b"}},

		{text: "[[ -f a && b == c ]]", commands: []string{"[["}, only: Bash},
		{text: "[[ 'a[$(id)]' -eq 0 ]]", commands: []string{"[["}, features: []Feature{Arithmetic}, only: Bash},
		{text: "[[ -v a ]]", commands: []string{"[["}, features: []Feature{Arithmetic}, only: Bash},
		{text: "((a = 1))", features: []Feature{Arithmetic}, only: Bash},
		{text: "let a=1", commands: []string{"let"}, features: []Feature{Arithmetic}, only: Bash},
		{text: "export A=b C", commands: []string{"export|?|?"}, features: []Feature{Assignment}, only: Bash},
		{text: "export A=b", commands: []string{"export|A=b"}, only: Posix},
		{text: "a=(b $(c))", commands: []string{"c"}, features: []Feature{Assignment}, dynamic: true, only: Bash},
		{text: "diff <(a) >(b)", commands: []string{"diff|?|?", "a", "b"}, dynamic: true, only: Bash},
		{text: "coproc a b", commands: []string{"a|b"}, features: []Feature{Coprocess}, only: Bash},
		{text: "a {B}> c", commands: []string{"a"}, redirects: []string{">c"}, features: []Feature{Assignment}, only: Bash},
		{text: "a &> b; c &>> d; e <<< f", commands: []string{"a", "c", "e"}, redirects: []string{">b", ">d"}, only: Bash},
		{text: "time a", commands: []string{"a"}, only: Bash},
		{text: "time a", commands: []string{"time|a"}, only: Posix},
		{text: "select a in b; do c; done", commands: []string{"c"}, features: []Feature{Assignment, Other}, only: Bash},
		{text: "for ((;;)); do a; done", commands: []string{"a"}, features: []Feature{Arithmetic, Assignment}, only: Bash},
		{text: "echo @(a)", commands: []string{"echo|?"}, dynamic: true, only: Bash},
	} {
		for _, dialect := range Dialects {
			if c.only != "" && c.only != dialect {
				continue
			}
			got, err := Parse(dialect, c.text)
			if err != nil {
				t.Errorf("%s %q: %v", dialect, c.text, err)
				continue
			}
			if !slices.Equal(lines(got), c.commands) || !slices.Equal(redirects(got), c.redirects) || !slices.Equal(got.Features, c.features) || got.Dynamic != c.dynamic {
				t.Errorf("%s %q: commands %q, redirects %q, features %q, dynamic %t; want %q, %q, %q, %t", dialect, c.text,
					lines(got), redirects(got), got.Features, got.Dynamic, c.commands, c.redirects, c.features, c.dynamic)
			}
		}
	}
}

// TestUnreadable: a text that cannot be parsed is an error without a script.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a (", "'a", "a &&", "if a", "a\r", "a\r\n", "a\x00b", "a\x1bb", "a\xffb", "(a", "a | | b", ")", ">&-a", "<&1a b",
	} {
		for _, dialect := range Dialects {
			if s, err := Parse(dialect, text); err == nil {
				t.Errorf("%s reads %q as %q", dialect, text, lines(s))
			}
		}
	}
	for _, text := range []string{"a <(b)", "a=(b)", "a &>> b <<< c"} {
		if s, err := Parse(Posix, text); err == nil && len(s.Features) == 0 {
			t.Errorf("posix reads %q as %q", text, lines(s))
		}
	}
	if _, err := Parse("zsh", "a"); err == nil {
		t.Error("there is a dialect zsh")
	}
}

// TestBounds: texts beyond the limits are refused quickly, for any nesting.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.Repeat("a", MaxText+1), strings.Repeat("a;", MaxCommands+1), strings.Repeat("a ", MaxWords+1),
	} {
		if _, err := Parse(Bash, text); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	began := time.Now()
	for _, part := range []string{"(", "{ ", "if ", "$(", "\"$(", "((", "${a:-", "a[", "[[ (", "while ", "(')' ", "<<a $(", "! ", "a|", "f()"} {
		for _, dialect := range Dialects {
			if s, err := Parse(dialect, strings.Repeat(part, MaxText/len(part))); err == nil && !s.Dynamic {
				t.Errorf("%s reads %q, repeated", dialect, part)
			}
		}
	}
	// Parsing takes a second or two. A parser that parses each part again for each level of
	// nesting would take hours.
	if took := time.Since(began); took > must.Patience {
		t.Errorf("it took %s", took)
	}
	document := "cat > a.json <<'E'\n" + strings.Repeat("{\"a\": [1, (2)]},\n", 1500) + "E\n"
	if s, err := Parse(Bash, document); err != nil || !slices.Equal(lines(s), []string{"cat"}) {
		t.Errorf("a file of brackets: %v, %v", lines(s), err)
	}
}

// TestForm: equivalent texts have the same form, and different ones have different forms.
func TestForm(t *testing.T) {
	t.Parallel()
	forms := map[string]string{}
	for _, same := range [][]string{
		{"ls a|wc", "ls  a |\n wc # lines", "\n\tls a | wc;"}, {"ls a;wc", "ls a\n\nwc"}, {"ls a&&wc"}, {"ls a||wc"}, {"(ls a;wc)"}, {"ls a >wc"}, {"ls a >>wc"}, {"ls a wc"}, {"ls 'a wc'"},
	} {
		for _, text := range same {
			form := must.Get(Parse(Posix, text))(t).Form
			if first, taken := forms[form]; taken && first != same[0] {
				t.Errorf("%q and %q have the form %q", text, first, form)
			} else if !taken && text != same[0] {
				t.Errorf("%q has the form %q, and %q has another", text, form, same[0])
			}
			forms[form] = same[0]
		}
	}
}

// TestScriptText: the input of the digest contains the whole parse result, and distinguishes a
// literal from a source.
func TestScriptText(t *testing.T) {
	t.Parallel()
	text := must.Get(json.Marshal(must.Get(Parse(Posix, "A=1 ls '$B' $B > c"))(t)))(t)
	want := `{"dialect":"posix","commands":[{"words":[{"literal":"ls"},{"literal":"$B"},{"source":"$B"}]}],` +
		`"redirects":[{"target":{"literal":"c"},"writes":true}],"features":["assignment"],"dynamic":true,"form":"A=1 ls '$B' $B \u003ec\n"}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// TestSettings: every variable that a text sets is listed, with its value if that is known.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want string
		only Dialect
	}{
		{text: "ls a=b ${A:-b} $A"},
		{text: "A=b C= D='e f' ls", want: "A=b|C=|D=e f"},
		{text: "A=$B ls", want: "A?"},
		{text: "(A=b); ls | { B=c d; }; if A; then C=d; fi", want: "A=b|B=c|C=d"},
		{text: "echo $(A=b ls)", want: "A=b"},
		{text: "a() { A=b ls; }", want: "A=b"},
		{text: "for A in b; do c; done", want: "A?"},
		{text: "echo ${A:=b} ${B=c} \"${C:=d}\"", want: "A?|B?|C?"},
		{text: "cat <<E\n${A:=b}\nE", want: "A?"},
		{text: "export A=b C", want: "A=b|C?", only: Bash},
		{text: "declare -x A=b", want: "?|A=b", only: Bash},
		{text: "export $A", want: "?", only: Bash},
		{text: "echo ${!A:=b}", want: "?", only: Bash},
		{text: "A+=b; B[1]=c; C=(d)", want: "A?|B?|C?", only: Bash},
		{text: "a {B}> c", want: "B?", only: Bash},
	} {
		for _, dialect := range Dialects {
			if c.only != "" && c.only != dialect {
				continue
			}
			got, err := Parse(dialect, c.text)
			if err != nil {
				t.Errorf("%s %q: %v", dialect, c.text, err)
				continue
			}
			var settings []string
			for _, s := range got.Settings {
				value, known := s.Value.Literal()
				settings = append(settings, s.Name+map[bool]string{true: "=" + value, false: "?"}[known])
			}
			if text := strings.Join(settings, "|"); text != c.want {
				t.Errorf("%s %q sets %q, want %q", dialect, c.text, text, c.want)
			}
		}
	}
}
