package shellfacts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/shellwords"
)

// system returns the origin "workspace" for programs of the workspace, and "system" for all
// others.
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

// TestUnknownLines: a line with effects other than running its commands is marked with the
// names of these effects, and no list of allowed commands matches it. Its possible commands are
// listed nevertheless.
func TestUnknownLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		special string
		// runs are required names.
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
		{"eval 'rm a", "", "eval rm"}, // the code cannot be parsed
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

// TestEnv: the variables that a line may set for its commands are listed by name, or the line
// is marked as setting any variable.
func TestEnv(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ls": "", "ls $A": "", "ls | wc > a": "", "LC_ALL=C sort a": "", "env TZ=UTC date": "", "export LANG=C; ls": "", "timeout 5 ls": "", "find . -exec rm {} +": "", "sh -c 'LC_ALL=C ls'": "",
		"bash a.sh": "", "echo A=b": "", "cd a && NO_COLOR=1 make": "", "python3 -c 'x=1'": "",

		"OPENSSL_CONF=./a curl b": "OPENSSL_CONF", "GOROOT=./a; export GOROOT; go build": "GOROOT", "export JAVA_HOME=a B=c": "B JAVA_HOME", "env HGRCPATH=a hg st": "HGRCPATH",
		"env -i A=b ls": "A", "timeout 5 env A=b ls": "A", "/usr/bin/env A=b ls": "A", "nice find . -exec env A=b ls {} +": "A", "sh -c 'A=b ls'": "A", "eval 'A=b ls'": "A",
		"trap 'A=b ls' EXIT": "A", "alias l='A=b ls'": "A", "echo $(A=b ls)": "A", "for A in b; do ls; done": "A", "echo ${A:=b}": "A", "f() { A=b ls; }; f": "A",
		"LC_ALL=$A sort": "LC_ALL", "LANG=/a ls": "LANG", "export LANG; ls": "LANG", "PATH=. ls": "PATH", "readonly A=b; ls": "A",

		"$A b": "?", "export $A": "?", "export -n A": "? A", "read A": "?", "printf -v A b": "?", "unset A": "?", "getopts a A": "?", "env $A ls": "?", "env -S 'ls'": "?",
		"env -u A ls": "?", "sudo ls": "?", "docker run a": "?", "uv run a": "?", ". ./a": "?", "command . ./a": "?", "source a": "?", "sh -c $A": "?", "eval $A": "?", "curl a | sh": "?", "ls 'a": "?",
		"let A=1": "?", "exec env $A": "?", "command export A=b": "A", "\\export A=b": "A", "\\export $A": "?", "git -c alias.a=b a": "?", "sh -c \"ls 'a\"": "?",
	} {
		for _, dialect := range shellwords.Dialects {
			if got := Read(dialect, text, system).Env; !slices.Equal(got, strings.Fields(want)) {
				t.Errorf("%s %q sets %q, want %q", dialect, text, got, strings.Fields(want))
			}
		}
	}
}

// TestWrappersOfPrograms: a program that starts another one from its arguments makes its line
// unknown. The started program is listed among the commands.
func TestWrappersOfPrograms(t *testing.T) {
	t.Parallel()
	for text, runs := range map[string]string{
		"uv run rm a": "uv rm", "uvx rm": "rm", "poetry run rm": "rm", "npm exec -- rm a": "rm", "npx rm": "rm", "npx -p a rm": "rm", "mise exec -- rm": "rm", "direnv exec . rm a": "rm",
		"bundle exec rm": "rm", "nix-shell -p a --run 'rm b'": "rm", "nix-shell --run=rm": "rm", "nix develop -c rm": "rm", "tar --to-command=rm -xf a": "rm", "tar -xf a --to-command 'sh -c rm'": "rm sh",
		"tar -Irm -xf a": "rm", "tar --checkpoint=1 --checkpoint-action=exec=rm": "rm", "git -c alias.status=!rm status": "rm git", "git -c 'alias.a=!f() { rm b; }; f' a": "rm",
		"git rebase --exec rm main": "rm", "git rebase --exec=rm main": "rm", "git bisect run rm": "rm", "git submodule foreach 'rm a'": "rm", "git fetch 'ext::rm a'": "rm",
		"sed 1e a": "sed", "sed s/a/b/w a": "sed", "make SHELL=./rm": "./rm rm", "rsync -e rm a b": "rm", "man -P rm ls": "rm", "find . -exec rm {} +": "rm", "fd -x rm": "rm",
		"npm exe -- rm": "rm", "git lola rm": "rm", "install --strip-program=rm a b": "rm", "some --pager rm": "rm", "sotruss rm": "rm", "gcc @a b.c": "gcc", "git --git-dir=a status": "git", "make -f - rm": "rm", "rustup run stable rm": "rm",
	} {
		f := Read(shellwords.Bash, text, system).Facts
		if f.Known || !slices.Contains(f.Special, tool.ShellWrapper) || !slices.Contains(f.Commands, tool.ShellUnknown) {
			t.Errorf("%q is taken for known: %+v", text, f)
		}
		for _, name := range strings.Fields(runs) {
			if !slices.Contains(f.Commands, name) {
				t.Errorf("%q: commands are %q, want %q among them", text, f.Commands, name)
			}
		}
	}
	for _, text := range []string{"uv sync", "npm test", "git -C a status", "sed -n 5p a", "tar xzf a", "make V=1", "find . -name a", "git -c color.ui=never log", "npm --prefix web run build", "go test -run TestExec ./...", "eslint --config a.js src", "grep -rn -- --exec .", "git -C web log"} {
		if f := Read(shellwords.Bash, text, system).Facts; !f.Known {
			t.Errorf("%q is not known: %q", text, f.Special)
		}
	}
}

// TestClaim: a line that another process runs never counts as known, and its possible commands
// are listed.
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

// TestRead covers other results of parsing a line.
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

// FuzzRead: a rule that allows some commands never matches a line with any other content. A
// nested line is treated at least as strictly as a separate one.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"ls", "ls|rm", "ls;$a", "eval rm", "env rm", "sh -c 'rm a'", "a() { rm; }", "ls > rm", "ls (", "\"rm\" a", "find . -exec rm {} ;", "uv run rm", "sed 1e a", "tar --to-command=rm -xf a", "git -c alias.a=!rm a", "A=b ls", "export A=b; ls", "env A=b ls"} {
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
			if env := Read(dialect, text, system).Env; len(env) > 0 {
				t.Errorf("a list of %q holds for %q, which sets %q", allowed, text, env)
			}
			if claim := Claim(dialect, text); !slices.Contains(claim.Commands, tool.ShellUnknown) {
				t.Errorf("a list of %q holds for the claim %q", allowed, text)
			}
		}
	})
}

// TestWrappersOfTheTable: every launcher that process.run refuses counts as a wrapper here.
func TestWrappersOfTheTable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"env", "xargs", "sudo", "nohup", "time", "ssh", "docker", "strace"} {
		if !command.StartsOthers(name) {
			t.Fatalf("%s is no launcher", name)
		}
		if f := Read(shellwords.Posix, name+" a rm b", system).Facts; !slices.Contains(f.Special, tool.ShellWrapper) || !slices.Contains(f.Commands, "rm") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
