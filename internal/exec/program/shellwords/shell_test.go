package shellwords

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// helpers are the programs for the shells of these tests: the test binary itself, under other
// names, which records its arguments.
var helpers = []string{"a", "b", "p"}

const argvLog = "PALYRA_TEST_ARGV"

func TestMain(m *testing.M) {
	if log := os.Getenv(argvLog); log != "" && slices.Contains(helpers, os.Args[0]) {
		os.Exit(recordArgv(log))
	}
	os.Exit(m.Run())
}

func recordArgv(log string) int {
	line, err := json.Marshal(os.Args)
	if err != nil {
		return 1
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return 1
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		return 1
	}
	return 0
}

// alphabet contains the characters of texts for a real shell. Without a slash no path leaves
// the directory of the test. With these letters and digits no spelling names a builtin, such as
// cd or kill, or a loop.
const alphabet = "abp12.,:=-_ \t\n'\"\\$`{}()[]*?~!#;&|<>@+^%"

// harmless reports whether a text may be run. The text must define no function, which could
// call itself, and have no long brace list.
func harmless(text string) bool {
	if len(text) > 200 || strings.Trim(text, alphabet) != "" || strings.Count(text, "{") > 3 || strings.Contains(text, "{") && strings.Contains(text, "..") {
		return false
	}
	joined := strings.NewReplacer("\\\n", "", " ", "", "\t", "", "\n", "").Replace(text)
	return !strings.Contains(joined, "()")
}

// realShell is a shell of the machine whose search path contains only the helpers.
type realShell struct {
	dialect Dialect
	path    string
	args    []string
	bin     string
}

func realShells(t testing.TB) []realShell {
	t.Helper()
	bin, self := t.TempDir(), must.Get(os.Executable())(t)
	for _, name := range helpers {
		must.Do(t, os.Symlink(self, filepath.Join(bin, name)))
	}
	var list []realShell
	for _, s := range []realShell{{dialect: Posix, path: "dash"}, {dialect: Bash, path: "bash", args: []string{"--noprofile", "--norc"}}} {
		path, err := exec.LookPath(s.path)
		if err != nil {
			t.Logf("there is no %s on this machine", s.path)
			continue
		}
		s.path, s.bin = path, bin
		list = append(list, s)
	}
	if len(list) == 0 {
		t.Skip("there is no shell on this machine")
	}
	return list
}

// ran is the result of running a text.
type ran struct {
	// argvs are the arguments of each started helper, in the order of their starts. files are the
	// names of the resulting files.
	argvs [][]string
	files []string
	exit  int
}

func (s realShell) run(t testing.TB, text string) ran {
	t.Helper()
	base := must.Get(os.MkdirTemp("", "shellwords"))(t)
	defer func() { must.Check(t, os.RemoveAll(base)) }()
	dir, log := filepath.Join(base, "cwd"), filepath.Join(base, "log")
	must.Do(t, os.Mkdir(dir, 0o700))
	must.Do(t, os.WriteFile(log, nil, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.path, append(slices.Clone(s.args), "-c", "--", text)...)
	// The race detector would make each helper wait for a second before it ends.
	cmd.Dir, cmd.Env = dir, []string{"GORACE=atexit_sleep_ms=0", "PATH=" + s.bin, "HOME=" + dir, "ENV=", "BASH_ENV=", "LANG=C.UTF-8", argvLog + "=" + log}
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s did not end: %q", s.path, text)
	}
	var r ran
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.exit = exit.ExitCode()
	} else {
		must.Do(t, err)
	}
	for _, line := range bytes.Split(bytes.TrimSpace(must.Get(os.ReadFile(log))(t)), []byte("\n")) {
		if len(line) > 0 {
			var argv []string
			must.Do(t, json.Unmarshal(line, &argv))
			r.argvs = append(r.argvs, argv)
		}
	}
	for _, entry := range must.Get(os.ReadDir(dir))(t) {
		r.files = append(r.files, entry.Name())
	}
	return r
}

// fits reports whether words match a command: a literal word matches itself, and any other word
// matches any number of words.
func (c Command) fits(argv []string) bool { return fits(c.Words, argv) }

func fits(words []Word, argv []string) bool {
	if len(words) == 0 {
		return len(argv) == 0
	}
	if text, literal := words[0].Literal(); literal {
		return len(argv) > 0 && argv[0] == text && fits(words[1:], argv[1:])
	}
	for n := range len(argv) + 1 {
		if fits(words[1:], argv[n:]) {
			return true
		}
	}
	return false
}

// compare compares the behavior of a real shell with the parse result.
func (s realShell) compare(t testing.TB, text string) {
	t.Helper()
	script, err := Parse(s.dialect, text)
	if err != nil || !harmless(text) || slices.Contains(script.Features, Function) || slices.Contains(script.Features, Other) {
		return
	}
	var named [][]string // the literal commands that are helpers
	literal := !script.Dynamic && len(script.Features) == 0
	for _, c := range script.Commands {
		words, _ := c.Argv()
		switch {
		case len(words) > 0 && words[0] == ".":
			return // it runs the content of a file
		case len(words) > 0 && slices.Contains(helpers, words[0]):
			named = append(named, words)
		}
	}
	got := s.run(t, text)
	for _, argv := range got.argvs {
		if !slices.ContainsFunc(script.Commands, func(c Command) bool { return c.fits(argv) }) {
			t.Errorf("%s runs %q of %q, in which %q was read", s.path, argv, text, lines(script))
		}
	}
	for _, name := range got.files {
		if !slices.ContainsFunc(script.Redirects, func(r Redirect) bool {
			target, known := r.Target.Literal()
			return r.Writes && (!known || target == name)
		}) {
			t.Errorf("%s writes %q of %q, in which %q was read", s.path, name, text, redirects(script))
		}
	}
	if literal && !strings.ContainsAny(text, "&|<>!") && !(got.exit == 2 && len(got.argvs) < len(named)) && !slices.EqualFunc(got.argvs, named, slices.Equal) {
		t.Errorf("%s runs %q of %q, in which %q was read (exit code %d)", s.path, got.argvs, text, named, got.exit)
	}
}

// seeds are texts that shells and parsers interpret differently, or could.
var seeds = []string{
	"p a b", `p 'a b' "a b" a\ b`, `p "" '' a''b`, "p a\\\nb \\\n a", `p "a\b" "a\$b" "a\"b" 'a\b' "a\` + "\n" + `b"`, `p \a \\ \' \"`,
	"p {a,b} {a} {} a{}b {1..2}", "p * a* [ab] \\* '*' \"?\"", "p ~ a=~ a:~ ~a '~' a~ =~ :~ ''~ \"\"~a", "p $a ${a} \"$a\" '$a' \\$a $ a$ \"$\" \"a$\"",
	"p $'a' $\"a\" $'\\12'", "p a#b #a\np b", "p a;p b&&p 1||p 2|b", "p a & p b", "(p a;(p b))", "{ p a;p b; }", "! p a", "p `p a` $(p b)", "p $(p $(p a)) \"`p b`\"",
	"a=b p a", "a=b", "a=b;p $a", "a= p", "p a=b", "p a=(b)", "a=(b) p", "a+=b p", "[ a ] && p a", "[ a", "[a p", "p ] }", "p a > b", "p a >b 2>&1", "p >>a <b", "p <>a", "p >&a", "p &>a", "p &>>a", "p >|a", "p 1>a", "p 12>a", "p 12 >a", "p a1>b",
	"p <<a\nb $b\na\np 1", "p <<'a'\nb `b`\na\np 1", "p <<-a\n\tb\n\ta\np 2", "p <<< a", "p <(p a)", "p >(p a)", ": a", ". a", "p . ..", "p @(a) +(a) !(a)", "p !a ! p", "p a^b", "p %a", "((1))", "((1));p a", "( (p a) )", "$((1))", "p $((1)) $[1]",
	"p -- -a --a=b", "p a\\", "p 'a", "p \"a", "p a)", "p a;;p b", "a() p", "a () { p; }", "p=a b=p p", "p\ta\t\tb", "p a\n\n\np b\n", "p\\\n a", "p \\\n\\\na", "p '\\\na'", "\\p a", "'p' a", "\"p\" a", "p'' a", "''p a", "p\"a\" b", "{p,a}", "{ p a", "p {", "p a{,b}", "p a{b", "p {a", "p {}{a}", "p '{a,b}' {'a',b}",
	"p \\~ \\{a,b} {a\\,b}", "p a:b:~ a=b:~a", "p \\\n~", "p a\\\n=~", ">&-a", "p <&-a", "p >&1a", "p 2>&-", "`p a`", "\"`p a`\"", "`p \\`p a\\``", "p `\\$a`", "p \"`p \"a\"`\"", "1>a p", "<a p", "{a}>b p", "p {a}>b", "p 1 2>a", "p a&", "p a & b", "p a|&p b", "p a | | b", ";p a", "&p", "p;\n;p", "p [[ a ]]", "[[ a ]] && p a", "[[ a = b ]] || p a",
}

// TestRealShells: the parse result matches the behavior of this machine's shells, for the seeds
// and for random combinations of their parts.
func TestRealShells(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts many programs")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	texts := slices.Clone(seeds)
	for range 100 {
		texts = append(texts, madeUp(rng))
	}
	for _, s := range realShells(t) {
		t.Run(string(s.dialect), func(t *testing.T) {
			for _, text := range texts {
				s.compare(t, text)
			}
		})
	}
}

// madeUp returns a random combination of parts of the seeds.
func madeUp(rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString("p ")
	for range 1 + rng.IntN(5) {
		seed := seeds[rng.IntN(len(seeds))]
		from := rng.IntN(len(seed))
		b.WriteString(seed[from : from+1+rng.IntN(min(8, len(seed)-from))])
		b.WriteString([]string{"", " ", "\n", ";"}[rng.IntN(4)])
	}
	return b.String()
}

// TestRealShellsSeeWrongWords is the control: compare detects wrongly parsed words.
func TestRealShellsSeeWrongWords(t *testing.T) {
	t.Parallel()
	for _, s := range realShells(t) {
		got := s.run(t, `p 'a b' {a} > b; a`)
		if len(got.argvs) != 2 || !slices.Equal(got.files, []string{"b"}) {
			t.Fatalf("%s: %+v", s.path, got)
		}
		right := Command{Words: []Word{Literal("p"), Literal("a b"), Literal("{a}")}}
		for _, wrong := range []Command{
			{Words: []Word{Literal("p"), Literal("a"), Literal("b"), Literal("{a}")}}, {Words: []Word{Literal("p"), Literal("'a b'"), Literal("{a}")}},
			{Words: []Word{Literal("p"), Literal("a b"), Literal("a")}}, {Words: []Word{Literal("p"), Literal("a b")}}, {Words: []Word{Literal("a b")}},
		} {
			if !right.fits(got.argvs[0]) || wrong.fits(got.argvs[0]) {
				t.Errorf("%s passed %q: right %t, wrong %t", s.path, got.argvs[0], right.fits(got.argvs[0]), wrong.fits(got.argvs[0]))
			}
		}
	}
}

// FuzzRealShells searches for texts whose words a shell passes on differently.
func FuzzRealShells(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	shells := realShells(f)
	f.Fuzz(func(t *testing.T, text string) {
		// Bytes that must not be run are replaced with harmless ones.
		runs := []byte(text)
		for i, c := range runs {
			if strings.IndexByte(alphabet, c) < 0 {
				runs[i] = alphabet[int(c)%len(alphabet)]
			}
		}
		for _, s := range shells {
			s.compare(t, string(runs))
		}
	})
}

// FuzzParse: the parser handles every text, and the result of a text with unknown parts is
// marked.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, dialect := range Dialects {
			script, err := Parse(dialect, text)
			if err != nil {
				continue
			}
			for _, c := range script.Commands {
				if len(c.Words) == 0 {
					t.Errorf("%q has a command without words", text)
				}
				if _, all := c.Argv(); !all && !script.Dynamic && !slices.Contains(script.Features, Assignment) {
					t.Errorf("%q has a word that is not literal, and is not dynamic", text)
				}
			}
			must.Get(json.Marshal(script))(t)
		}
	})
}
