package shellfacts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra/internal/sandbox"
	"palyra/internal/shellwords"
	"palyra/internal/tool"
)

// system has every program but those of the workspace.
func system(name string) string {
	if strings.HasPrefix(name, "./") {
		return tool.OriginWorkspace
	}
	return tool.OriginSystem
}

func TestKnownLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text        string
		commands    []string
		subcommands []string
		lines       []string
		origins     []string
		reads       []string
		writes      []string
	}{
		{text: ""},
		{"ls -la", []string{"ls"}, []string{"ls ?"}, []string{"ls -la"}, []string{"system"}, nil, nil},
		{"cd src && git -C a status | wc -l", []string{"cd", "git", "wc"}, []string{"cd src", "git status", "wc ?"}, []string{"cd src", "git -C a status", "wc -l"}, []string{"shell", "system"}, nil, nil},
		{"set -euo pipefail; [ -f a ] && echo 'b c'", []string{"[", "echo", "set"}, []string{"[ ?", "echo b c", "set ?"}, []string{"'[' -f a ']'", "echo 'b c'", "set -euo pipefail"}, []string{"shell"}, nil, nil},
		{"sort < a/../b 2>/dev/null", []string{"sort"}, []string{"sort"}, []string{"sort"}, []string{"system"}, []string{"b"}, nil},
		{"echo a > b", []string{">", "echo"}, []string{">", "echo a"}, []string{">", "echo a"}, []string{"shell"}, nil, []string{"b"}},
		{"./ls", []string{"./ls", "ls"}, []string{"ls"}, []string{"./ls"}, []string{"workspace"}, nil, nil},
		{"/bin/LS", []string{"/bin/LS", "LS", "ls"}, []string{"LS"}, []string{"/bin/LS"}, []string{"system"}, nil, nil},
		{"command -v go; python3 a.py; exec 2>&1", []string{"command", "exec", "python3"}, []string{"command ?", "exec", "python3 a.py"}, []string{"command -v go", "exec", "python3 a.py"}, []string{"shell", "system"}, nil, nil},
	} {
		for _, dialect := range shellwords.Dialects {
			got := Read(dialect, c.text, system)
			f := got.Facts
			if !f.Parsed || !f.Known || f.Claimed || f.Dynamic || len(f.Special) > 0 || got.Problem != "" || f.Dialect != string(dialect) {
				t.Errorf("%s %q is not known: %+v, %s", dialect, c.text, f, got.Problem)
			}
			if !slices.Equal(f.Commands, c.commands) || !slices.Equal(f.Subcommands, c.subcommands) || !slices.Equal(f.Lines, c.lines) ||
				!slices.Equal(f.Origins, c.origins) || !slices.Equal(f.Reads, c.reads) || !slices.Equal(f.Writes, c.writes) {
				t.Errorf("%s %q: %+v", dialect, c.text, f)
			}
		}
	}
}

// TestUnknownLines: a line that could do anything but run its commands says so, in
// words that a rule can name, and no list of commands holds for it. What it may run is
// among its commands all the same.
func TestUnknownLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		special string
		// runs are names that have to be there.
		runs string
	}{
		{"ls $A", "", "ls"},
		{"$A", "", ""},
		{"echo $(rm a)", "", "echo rm"},
		{"echo `rm a`", "", "echo rm"},
		{"A=b ls", "assignment", "ls"},
		{"PATH=.", "assignment", ""},
		{"export PATH=.; ls", "assignment", "export ls"},
		{"read PATH < a; ls", "assignment", "read ls"},
		{"printf -v PATH .; ls", "assignment", "printf ls"},
		{"for A in b; do ls; done", "assignment", "ls"},
		{"unset a", "assignment", "unset"},
		{"eval 'r\\m a'", "eval", "eval rm"},
		{"eval rm a", "eval", "eval rm"},
		{"eval 'rm a", "", "eval rm"}, // which nothing can read
		{". ./a", "source", "."},
		{"source a", "source", "source"},
		{"trap 'rm a' EXIT", "trap", "trap rm"},
		{"alias ls='rm -r'", "alias", "alias rm"},
		{"hash -p ./a ls; ls", "alias", "hash ls"},
		{"enable -f ./a ls", "alias", "enable"},
		{"ls() { rm a; }; ls", "function", "rm ls"},
		{"let 'a[$(id)]'", "arithmetic", "let"},
		{"test -v 'a[$(id)]'", "arithmetic", "test"},
		{"shopt -s expand_aliases", "builtin", "shopt"},
		{"set -- a", "builtin", "set"},
		{"set -a", "builtin", "set"},
		{"cat < /dev/tcp/example.com/80", "network", "cat"},
		{"exec 3<> /dev/udp/1.1.1.1/53", "network", "exec"},

		{"sh -c 'rm a | wc'", "shell", "sh rm wc"},
		{"bash -ec \"curl x\"", "shell", "bash curl"},
		{"bash -o pipefail -c 'curl x'", "shell", "bash curl"},
		{"/bin/dash a.sh", "shell", "dash /bin/dash"},
		{"curl x | sh", "shell", "curl sh"},
		{"sh -c 'sh -c \"sh -c rm\"'", "shell", "sh rm"},
		{"env rm a", "wrapper", "env rm"},
		{"env -i A=b rm a", "wrapper", "env rm"},
		{"env -S 'rm a'", "wrapper", "env rm"},
		{"sudo -u root git push", "wrapper", "sudo git"},
		{"xargs -n1 rm < a", "wrapper", "xargs rm"},
		{"find . -exec rm {} +", "wrapper", "find rm"},
		{"find . -execdir sh -c 'curl x' ';'", "wrapper shell", "find sh curl"},
		{"timeout 5 nice nohup env rm a", "wrapper", "timeout nice nohup env rm"},
		{"command rm a", "wrapper", "command rm"},
		{"builtin eval 'rm a'", "wrapper eval", "builtin eval rm"},
		{"exec rm a", "wrapper", "exec rm"},
		{"busybox rm a", "wrapper", "busybox rm"},
		{"python3 -c 'import os'", "inline_code", "python3"},
		{"cat a | python3", "inline_code", "cat python3"},
		{"awk '{print $1}'", "inline_code", "awk"},
		{"''", "other", ""},

		{"rm 'a", "", "rm"},
		{"a && (rm b", "", "a rm"},
		{"r''m a |", "", "rm"},
		{">&-rm a", "", "rm"},
		{"rm a\r\nls", "", "rm ls"},
		{strings.Repeat("(", 1000) + "rm a", "", "rm"},
	} {
		for _, dialect := range shellwords.Dialects {
			f := Read(dialect, c.text, system).Facts
			if f.Known || !slices.Contains(f.Commands, tool.ShellUnknown) || !slices.Contains(f.Subcommands, tool.ShellUnknown) ||
				!slices.Contains(f.Lines, tool.ShellUnknown) || !slices.Contains(f.Origins, tool.OriginUnknown) {
				t.Errorf("%s %q is taken for known: %+v", dialect, c.text, f)
			}
			for _, special := range strings.Fields(c.special) {
				if !slices.Contains(f.Special, special) {
					t.Errorf("%s %q: special is %q, want %q", dialect, c.text, f.Special, special)
				}
			}
			for _, special := range f.Special {
				if !slices.Contains(tool.ShellSpecials, special) {
					t.Errorf("%q is not among tool.ShellSpecials", special)
				}
			}
			for _, name := range strings.Fields(c.runs) {
				if !slices.Contains(f.Commands, name) {
					t.Errorf("%s %q: commands are %q, want %q among them", dialect, c.text, f.Commands, name)
				}
			}
		}
	}
	f := Read(shellwords.Bash, "sudo git -C a push; git -c alias.a=push a; git $A", system).Facts
	for _, want := range []string{"git push", "git ?"} {
		if !slices.Contains(f.Subcommands, want) {
			t.Errorf("subcommands are %q, want %q", f.Subcommands, want)
		}
	}
}

// TestClaim: a line that somebody else runs is never known, and what it may run is
// there.
func TestClaim(t *testing.T) {
	t.Parallel()
	f := Claim(shellwords.Bash, "ls -la && git push > a")
	if f.Known || !f.Claimed || !f.Parsed || f.Dynamic || len(f.Special) > 0 || !slices.Equal(f.Origins, []string{"unknown"}) || !slices.Equal(f.Writes, []string{"a"}) {
		t.Errorf("%+v", f)
	}
	if !slices.Equal(f.Commands, []string{">", "?", "git", "ls"}) || !slices.Contains(f.Subcommands, "git push") || !slices.Contains(f.Lines, "?") {
		t.Errorf("%+v", f)
	}
	if own := Read(shellwords.Bash, "ls -la && git push", system); !own.Facts.Known {
		t.Error("the control is not known either")
	}
}

// TestRead: what else comes of a line.
func TestRead(t *testing.T) {
	t.Parallel()
	asked := []string{}
	got := Read(shellwords.Posix, "make -f a.mk $A; cat < b <$C; ls d", func(name string) string {
		asked = append(asked, name)
		return tool.OriginOther
	})
	if !slices.Equal(asked, []string{"make", "cat", "ls"}) || !slices.Equal(got.Sources, []string{"b"}) || fmt.Sprint(got.Programs) != "[{[cat] cat} {[ls d] ls}]" {
		t.Errorf("asked %q, %+v", asked, got)
	}
	digests := map[string]string{}
	for _, text := range []string{"ls a", "ls b", "ls 'a'", "ls a | wc", "ls a; wc", "ls $a", "ls 'a", "ls (", ""} {
		digest := Read(shellwords.Posix, text, system).Digest
		if !strings.HasPrefix(digest, "sha256:") || digests[digest] != "" {
			t.Errorf("%q and %q have the digest %q", text, digests[digest], digest)
		}
		digests[digest] = text
	}
	long := Read(shellwords.Posix, strings.Repeat("echo aaaaaaaaaaaaaaaaaaa;", 1000), system).Facts
	if !long.Known || !slices.Equal(long.Lines, []string{"?"}) {
		t.Errorf("a long line has the lines %.80q", long.Lines)
	}
}

// FuzzRead: a rule that allows some commands never holds for a line that holds
// anything else, and a line within another is no less dangerous than by itself.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"ls", "ls|rm", "ls;$a", "eval rm", "env rm", "sh -c 'rm a'", "a() { rm; }", "ls > rm", "ls (", "\"rm\" a", "find . -exec rm {} ;"} {
		f.Add(seed)
	}
	allowed := []string{"ls", "wc"}
	f.Fuzz(func(t *testing.T, text string) {
		for _, dialect := range shellwords.Dialects {
			facts := Read(dialect, text, system).Facts
			holds := !slices.ContainsFunc(facts.Commands, func(name string) bool { return !slices.Contains(allowed, name) })
			if !holds {
				continue
			}
			script, err := shellwords.Parse(dialect, text)
			if err != nil || script.Dynamic || len(script.Features) > 0 || len(facts.Writes) > 0 || !facts.Known {
				t.Errorf("a list of %q holds for %q", allowed, text)
			}
			for _, c := range script.Commands {
				if words, all := c.Argv(); !all || !slices.Contains(allowed, words[0]) {
					t.Errorf("a list of %q holds for %q, which runs %q", allowed, text, words)
				}
			}
			if claim := Claim(dialect, text); !slices.Contains(claim.Commands, tool.ShellUnknown) {
				t.Errorf("a list of %q holds for the claim %q", allowed, text)
			}
		}
	})
}

// TestWrappersOfTheTable: every launcher that process.run refuses is one here.
func TestWrappersOfTheTable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"env", "xargs", "sudo", "nohup", "time", "ssh", "docker", "strace"} {
		if !sandbox.StartsOthers(name) {
			t.Fatalf("%s is no launcher", name)
		}
		if f := Read(shellwords.Posix, name+" a rm b", system).Facts; !slices.Contains(f.Special, tool.ShellWrapper) || !slices.Contains(f.Commands, "rm") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
