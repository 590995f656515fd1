package command

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

func TestFamily(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"python3": "python", "python3.12": "python", "Python3.11-dbg": "python", "/usr/bin/python3.7m": "python", "python3.13t": "python", "python312": "python",
		"pypy3.10": "pypy", "perl5.36-x86_64-linux-gnu": "perl", "ruby3.1": "ruby", "node20": "node", "lua5.4": "lua", "php8.2": "php",
		"bash": "bash", "bash.exe": "bash", "-bash": "bash", "bash-5.2": "bash", `C:\Windows\cmd.exe`: "cmd", "busybox.static": "busybox",
		"ld-linux-x86-64.so.2": "ld-linux", "ld-musl-x86_64.so.1": "ld-linux",
		"git": "git", "python3.12-config": "python3.12-config", "ed25519": "ed25519", "shred": "shred", "gcc-12": "gcc-12", "x86_64-linux-gnu-gcc-12": "x86_64-linux-gnu-gcc-12",
		"envsubst": "envsubst", "supervisord": "supervisord", "timeouts": "timeouts", "nodejs": "nodejs",
	} {
		if got := Family(name); got != want {
			t.Errorf("Family(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		plain, interpreters bool // refused? Where policy decides, see below.
	}{
		{"git", false, false}, {"gcc-12", false, false}, {"make", false, false}, {"true", false, false}, {"go", false, false}, {"cargo", false, false},
		{"sh", true, true}, {"bash", true, true}, {"dash", true, true}, {"zsh", true, true}, {"env", true, true}, {"xargs", true, true}, {"sudo", true, true},
		{"su", true, true}, {"setsid", true, true}, {"nohup", true, true}, {"busybox", true, true}, {"ld-linux-x86-64.so.2", true, true}, {"bwrap", true, true},
		{"timeout", true, true}, {"cmd.exe", true, true}, {"PowerShell.exe", true, true},
		{"setarch", true, true}, {"linux32", true, true}, {"linux64", true, true}, {"i386", true, true}, {"x86_64", true, true}, {"run-parts", true, true},
		{"sg", true, true}, {"newgrp", true, true}, {"choom", true, true}, {"ssh-agent", true, true}, {"prove", true, true},
		{"gosu", true, true}, {"tini", true, true}, {"docker", true, true}, {"ssh", true, true}, {"socat", true, true}, {"systemd-nspawn", true, true}, {"fakeroot", true, true},
		{"valgrind", true, true}, {"start-stop-daemon", true, true}, {"perf", true, true}, {"start", false, false}, {"service", false, false}, {"ssh-keygen", false, false},
		{"raku", true, false}, {"jython", true, false}, {"octave", true, false}, {"swift", true, false}, {"wasmtime", true, false},
		{"python3.12", true, false}, {"node", true, false}, {"perl", true, false}, {"ruby3.1", true, false}, {"gawk", true, false},
	} {
		for let, want := range []bool{c.plain, c.interpreters, c.interpreters && !IsShell(c.name)} {
			err := Denied(c.name, Interpreters(let))
			if (err != nil) != want {
				t.Errorf("Denied(%q, %d) = %v", c.name, let, err)
			}
			if err != nil && reason.Of(err) != reason.ExecutableDenied {
				t.Errorf("Denied(%q) has reason %s", c.name, reason.Of(err))
			}
		}
	}
}

func TestInlineCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		want bool
	}{
		{"python3 -c print(1)", true}, {"python3 -cprint(1)", true}, {"python3 -Ic x", true}, {"python3 -I -c x", true}, {"python3 -W ignore -c x", true},
		{"python3 -Wc file.py", false}, {"python3 -X utf8 file.py", false}, {"python3.12 -", true}, {"python3 /dev/stdin", true}, {"python3 /dev/fd/0", true},
		{"python3 file.py -c x", false}, {"python3 -m pytest -c x", false}, {"python3 -mpytest -c x", false}, {"python3 -Bm pytest -c x", false}, {"python3 --version", false},
		{"python3 -B file.py", false}, {"python3 -- -c", false},
		{"node -e 1", true}, {"node --eval 1", true}, {"node --eval=1", true}, {"node -p 1", true}, {"node -pe 1", true}, {"node file.js -e 1", false}, {"node -r ./x.js file.js", false}, {"nodejs --print=1", true},
		{"python3 --check-hash-based-pycs always -c x", true}, {"python3 --check-hash-based-pycs=always -c x", true}, {"python3 --check-hash-based-pycs always file.py", false},
		{"node --require ./x.js -e 1", true}, {"node --unknown-option value -e 1", true}, {"node --enable-source-maps file.js", false}, {"bash --rcfile x -c ls", true},
		{"perl -e 1", true}, {"perl -ne print", true}, {"perl -lane print", true}, {"perl -E say", true}, {"perl -I lib file.pl", false}, {"perl -Ilibe file.pl", false}, {"perl -w file.pl -e", false},
		{"ruby -e 1", true}, {"ruby -rjson file.rb", false}, {"php -r 1", true}, {"php -d x=1 file.php", false}, {"lua5.4 -e x", true},
		{"deno eval 1", true}, {"deno run x.ts", false}, {"awk {print}", true}, {"awk -f prog.awk x", false}, {"awk -fprog.awk x", false}, {"gawk -F : {print}", true}, {"awk -v a=b -f prog.awk x", false},
		{"bash -c ls", true}, {"bash -lc ls", true}, {"bash -o pipefail -c ls", true}, {"sh script.sh -c", false}, {"zsh -ic ls", true},
		{"cmd.exe /c dir", true}, {"cmd /C dir", true}, {"cmd /cdir", true}, {"powershell -Command ls", true}, {"pwsh -enc AAAA", true}, {"pwsh -File x.ps1", false},
		{"gcc -c x.c", false}, {"git -c a=b status", false}, {"make -e", false}, {"julia -E 1", true}, {"raku -e 1", true}, {"jython -c 1", true}, {"clj -e 1", true}, {"octave --eval 1", true}, {"octave x.m", false}, {"Rscript -e 1", true}, {"r --expression=1", true},
	} {
		argv := strings.Fields(c.line)
		if got := InlineCode(argv[0], argv); got != c.want {
			t.Errorf("InlineCode(%q) = %t, want %t", c.line, got, c.want)
		}
	}
	for line, want := range map[string]bool{
		"python3": true, "python3 -I": true, "python3 -W error": true, "python3 x.py": false, "python3 -m http": false, "python3 --version": false, "python3 -c x": false, "python3 --check-hash-based-pycs always": true, "python3 --check-hash-based-pycs always x.py": false, "node": true, "git": false, "bash": true, "bash --": true,
	} {
		argv := strings.Fields(line)
		if got := ReadsCodeFromStdin(argv[0], argv); got != want {
			t.Errorf("ReadsCodeFromStdin(%q) = %t, want %t", line, got, want)
		}
	}
}

// TestCodeInNoFile covers alternatives to the plain flags. The words are separated by |, and
// each line has a control with a file.
func TestCodeInNoFile(t *testing.T) {
	t.Parallel()
	for code, file := range map[string]string{
		"perl|-Mstrict;exec(q(id))|x.pl": "perl|-Mlib=./lib,x y|x.pl", "perl|-d:X;system(1)|x.pl": "perl|-d:NYTProf=a;b|x.pl", "perl|-naF/,/),system(q(id)|x.pl": "perl|-naF,|x.pl",
		"node|--import=data:text/javascript,1|x.js": "node|--import=./data.js|x.js", "node|--import|data:text/javascript,1|x.js": "node|--import|./x.mjs|x.js",
		"node|-r|/dev/stdin|x.js": "node|-r|./dev/stdin.js|x.js", "node|--entry-url|data:text/javascript,1": "node|--entry-url|file:./x.js", "node|inspect|x.js": "node|x.js|inspect",
		"deno|run|data:text/javascript,1": "deno|run|data.ts", "deno|run|--allow-all|-": "deno|run|x.ts|-", "bun|run|-": "bun|run|build", "bun|exec|id": "bun|x.ts|exec", "bun|-r|./x.ts|-e|1": "bun|-r|./x.ts|y.ts",
		"php|-d|auto_prepend_file=data:,<?php 1|x.php": "php|-d|memory_limit=1G|x.php", "php|-dauto_prepend_file=php://stdin|x.php": "php|-dauto_prepend_file=a.php|x.php",
		"awk|-f|/dev/stdin": "awk|-F|-|-f|x.awk", "awk|-f-": "awk|-fx.awk|-", "awk|-f|-": "awk|-f|x.awk|-", "gawk|--file=/dev/stdin": "gawk|--file=x.awk", "gawk|--sourc=BEGIN{}|-f|x.awk": "gawk|--sandbox|-f|x.awk", "gawk|-f|x.awk|-Wsource=BEGIN{}": "gawk|-f|x.awk|Wsource",
		"python3|//dev/stdin": "python3|./dev.py", "python3|/dev/../dev//stdin": "python3|dev/null.py", "python3|/proc/thread-self/fd/0": "python3|proc/fd.py", "python3|../../dev/fd/0": "python3|dev/fd.py",
		"python3|-m|timeit|1": "python3|-m|pytest|1", "python3|-mtimeit|1": "python3|-mpytest", "python3|-Im|pdb|-c|!1|x.py": "python3|-Im|json.tool", "python3|--|/dev/stdin": "python3|--|x.py",
		"tclsh|-": "tclsh|x.tcl", "java|/dev/stdin": "java|-cp|x|Main|-e", "kotlin|-cp|x|-e|1": "kotlin|-cp|x|Main|-e", "crystal|eval|1": "crystal|run|x.cr", "ecl|-load|x|-eval|1": "ecl|-load|x", "gforth|-e|1": "gforth|x.fs",
		"vim|x|-c|!id": "vim|x|y", "nvim|+!id|x": "nvim|+12|x", "ex|x|+:q": "ex|x|+/word", "emacs|x|--eval|1": "emacs|x", "erl|-pa|ebin|-eval|1": "erl|-pa|ebin|-noshell",
		"R|-f|x.R|-e|1": "R|-f|x.R", "R|--file=-": "R|--file=x.R", "elixir|-r|x.exs|-e|1": "elixir|-r|x.exs|y.exs", "swipl|-f|x.pl|-g|1": "swipl|-f|x.pl", "guile|-l|x.scm|-c|1": "guile|-l|x.scm", "racket|-t|x.rkt|-e|1": "racket|-t|x.rkt",
	} {
		argv := strings.Split(code, "|")
		if !InlineCode(argv[0], argv) {
			t.Errorf("%q is no inline code", argv)
		}
		argv = strings.Split(file, "|")
		if InlineCode(argv[0], argv) {
			t.Errorf("control: %q is inline code", argv)
		}
	}
	for code, file := range map[string]string{
		"python3 -i x.py": "python3 -I x.py", "python3 -Bi x.py": "python3 -Wi x.py", "lua -i x.lua": "lua -lio x.lua", "node --interactive x.js": "node --inspect x.js", "perl -d x.pl": "perl -w x.pl", "php -a": "php -f x.php", "julia -i x.jl": "julia -p2 x.jl",
		"tclsh": "tclsh x.tcl", "wish": "wish x.tcl", "m4": "m4 x.m4", "ed x": "sed x", "ex x": "cat x", "vim -es x": "cat x", "jshell x": "java x.java", "java -cp x": "java -cp x Main", "gst": "gst x.st", "bash -s": "bash x.sh",
	} {
		argv := strings.Fields(code)
		if !ReadsCodeFromStdin(argv[0], argv) {
			t.Errorf("%q takes no code from standard input", argv)
		}
		argv = strings.Fields(file)
		if ReadsCodeFromStdin(argv[0], argv) {
			t.Errorf("control: %q takes code from standard input", argv)
		}
	}
}

func TestCheckArgv(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		argv []string
		want reason.Code
	}{
		{"good", []string{"true"}, ""}, {"most", slices.Repeat([]string{"a"}, MaxArgs), ""}, {"longest", []string{"a", strings.Repeat("x", MaxArgBytes)}, ""},
		{"none", nil, reason.InvalidInput}, {"empty name", []string{""}, reason.InvalidInput}, {"too many", slices.Repeat([]string{"a"}, MaxArgs+1), reason.InvalidInput},
		{"too long", []string{"a", strings.Repeat("x", MaxArgBytes+1)}, reason.InvalidInput}, {"NUL", []string{"a\x00"}, reason.InvalidUTF8}, {"bytes", []string{"\xff"}, reason.InvalidUTF8},
	} {
		if got := reason.Of(CheckArgv(c.argv)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func write(t testing.TB, name, content string, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(t, os.WriteFile(name, []byte(content), mode))
}

func TestResolveExecutable(t *testing.T) {
	t.Parallel()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	write(t, filepath.Join(dir, "real", "python3.11"), "\x7fELF", 0o755)
	write(t, filepath.Join(dir, "bin", "plain"), "text", 0o644)
	write(t, filepath.Join(dir, "script"), "#!/usr/bin/env -S A=b bash -e\n", 0o755)
	must.Do(t, os.Symlink("../real/python3.11", filepath.Join(dir, "bin", "python3")))
	var r Resolver
	path := []string{"relative", filepath.Join(dir, "none"), filepath.Join(dir, "bin")}
	p := must.Get(r.ResolveExecutable("python3", path))(t)
	if p.Basename != "python3.11" || p.Called != "python3" || p.Path != filepath.Join(dir, "real", "python3.11") || !strings.HasPrefix(p.SHA256, "sha256:") {
		t.Errorf("program = %+v", p)
	}
	if facts := p.Facts([]string{"python3", "-c", "x"}); !facts.IsInterpreter || !facts.InlineCode {
		t.Errorf("facts = %+v", facts)
	}
	if reason.Of(p.Check(NoInterpreters)) != reason.ExecutableDenied || p.Check(InterpretersOfFiles) != nil {
		t.Error("an interpreter is to be refused unless allowed")
	}
	script, err := r.ResolveExecutable(filepath.Join(dir, "script"), nil)
	if err != nil || script.Shebang != "bash" || script.Check(InterpretersOfFiles) == nil {
		t.Errorf("script = %+v, %v", script, err)
	}
	for name, want := range map[string]reason.Code{
		"": reason.InvalidInput, "a\x00b": reason.InvalidInput, "./python3": reason.InvalidInput, "bin/python3": reason.InvalidInput,
		"plain": reason.SpawnFailed, "none": reason.SpawnFailed, dir: reason.SpawnFailed, filepath.Join(dir, "nothing"): reason.SpawnFailed,
	} {
		if _, err := r.ResolveExecutable(name, path); reason.Of(err) != want {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}

	f := must.Get(r.OpenExecutable(p.Executable))(t)
	f.Close()
	// The new bytes have the same length and are written in place: the cache must not hide the
	// change.
	write(t, p.Path, "\x7fELG", 0o755)
	if _, err := r.OpenExecutable(p.Executable); reason.Of(err) != reason.BindingMismatch {
		t.Errorf("a changed program: %v", err)
	}
}

func names(list []tool.Operand) []string {
	var out []string
	for _, o := range list {
		out = append(out, o.Path)
	}
	return out
}

func TestOperands(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret", 0o644)
	for name, content := range map[string]string{
		"a.py": "1", "sub/b.py": "2", "sub/deep/c.txt": "3", "conftest.py": "4", "sub/pyproject.toml": "5", "Makefile": "all:", "=odd": "6", "@list": "7", "list": "8",
	} {
		write(t, filepath.Join(root, name), content, 0o644)
	}
	for link, target := range map[string]string{"inner": "a.py", "out": filepath.Join(outside, "secret"), "up": "../../passwd", "loop": "loop", "dirlink": "sub/deep"} {
		must.Do(t, os.Symlink(target, filepath.Join(root, link)))
	}
	for _, c := range []struct {
		name, cwd, line, base string
		want                  []string
		notes                 int
	}{
		{"plain", "", "cat a.py", "cat", []string{"a.py"}, 0},
		{"from a directory", "sub", "cat b.py ../a.py deep/c.txt", "cat", []string{"a.py", "sub/b.py", "sub/deep/c.txt"}, 0},
		{"above the root", "sub", "cat ../../a.py ../../../etc/passwd /etc/passwd", "cat", nil, 3},
		{"as seen inside", "sub", "cat /workspace/a.py /workspace/../etc/passwd", "cat", []string{"a.py"}, 1},
		{"two slashes", "", "cat //workspace/sub/b.py", "cat", []string{"sub/b.py"}, 0},
		{"by way of another directory", "", "cat /tmp/../workspace/sub/b.py /workspace/./sub/../a.py", "cat", []string{"a.py", "sub/b.py"}, 0},
		{"out and in again", "", "cat /workspace/../workspace/sub/b.py", "cat", []string{"sub/b.py"}, 0},
		{"the process's directory", "sub", "cat /proc/self/cwd/b.py /proc/1/cwd/../a.py", "cat", []string{"a.py", "sub/b.py"}, 0},
		{"the process's directory, hidden", "", "cat /tmp/../proc/./thread-self/cwd//sub/b.py /proc/1/task/1/cwd/a.py", "cat", []string{"a.py", "sub/b.py"}, 0},
		{"the process's root", "", "cat /proc/self/root/workspace/a.py", "cat", []string{"a.py"}, 0},
		{"stuck to an option", "", "grep -fsub/b.py -nEfa.py x", "grep", []string{"a.py", "sub/b.py"}, 0},
		{"stuck to an option, absolute", "", "grep -f/workspace/sub/b.py x", "grep", []string{"sub/b.py"}, 0},
		{"in a list", "", "x --files=a.py,sub/b.py -Wl,@sub/deep/c.txt HEAD:list", "x", []string{"a.py", "list", "sub/b.py", "sub/deep/c.txt"}, 0},
		{"as the kernel reads it", "", "cat dirlink/../b.py", "cat", []string{"dirlink/../b.py"}, 0},
		{"what looks like a path", "", "x origin/main https://a.b/c /usr/lib/x plain", "x", nil, 2},
		{"after =", "", "dd if=a.py --file=sub/b.py", "dd", []string{"a.py", "sub/b.py"}, 0},
		{"odd names", "", "cat =odd @list", "cat", []string{"=odd", "@list", "list"}, 0},
		{"through links", "", "cat inner out up loop", "cat", []string{"inner"}, 3},
		{"a directory is none", "", "ls sub .", "ls", nil, 0},
		{"runner", "sub", "python3 b.py", "python3.11", []string{"conftest.py", "sub/b.py", "sub/pyproject.toml"}, 0},
		{"make", "", "make all", "make", []string{"Makefile"}, 0},
		{"a versioned runner", "sub", "pip3.11 list", "pip3.11", []string{"sub/pyproject.toml"}, 0},
		{"the program itself", "sub", "./b.py x", "b.py", []string{"sub/b.py"}, 0},
		{"a name from PATH is none", "", "list a.py", "list", []string{"a.py"}, 0},
	} {
		named, err := Operands(root, c.cwd, strings.Fields(c.line), c.base)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := names(named.Operands); !slices.Equal(got, c.want) || len(named.Notes) != c.notes {
			t.Errorf("%s: %v, notes %q, want %v and %d notes", c.name, got, named.Notes, c.want, c.notes)
		}
	}
	for _, cwd := range []string{"..", "/", "none", "a.py", "sub/../..", "a\x00"} {
		if _, err := Operands(root, cwd, []string{"true"}, "true"); err == nil {
			t.Errorf("cwd %q is accepted", cwd)
		}
	}
	was, _ := Operands(root, "", []string{"cat", "a.py"}, "cat")
	write(t, filepath.Join(root, "a.py"), "x", 0o644)
	if is, _ := Operands(root, "", []string{"cat", "a.py"}, "cat"); is.Operands[0].SHA256 == was.Operands[0].SHA256 {
		t.Error("a changed file has the same digest")
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	env := Environment("/usr/bin/true", []string{"LANG=de_DE.UTF-8", "CI=1"}, nil)
	if !slices.Contains(env, "LANG=de_DE.UTF-8") || slices.Contains(env, "LANG=C.UTF-8") || !slices.Contains(env, "HOME="+Home) || !slices.Contains(env, "TERM=dumb") {
		t.Errorf("environment = %q", env)
	}
	must.Check(t, CheckEnv([]string{"CI=1", "GOCACHE=/tmp/x", "GIT_AUTHOR_NAME=A B", "E=", "npm_package_name=x", "npm_config_cafile=/workspace/ca.pem", "DENO_CERT=x", "PYTESTS=1", "XDG_CACHE_HOME=x"}))
	for _, bad := range [][]string{{"LD_PRELOAD=x"}, {"LD_AUDIT=x"}, {"DYLD_INSERT_LIBRARIES=x"}, {"NODE_OPTIONS=x"}, {"BASH_FUNC_ls%%=x"}, {"A=1", "A=2"}, {"A"}, {"=x"}, {"A B=x"}, {"PATH=x"}, {"GIT_COMMON_DIR=x"}, {"GIT_INDEX_FILE=x"}, {"PYTHONPLATLIBDIR=x"}, {"PYTHONPYCACHEPREFIX=x"}, {"A=\xff"}, {"A=a\x00"},
		{"npm_config_script_shell=./x"}, {"NPM_CONFIG_SCRIPT_SHELL=./x"}, {"npm_Config_prefix=x"}, {"YARN_YARN_PATH=x"}, {"PYTEST_ADDOPTS=-p x"}, {"GOCACHEPROG=x"}, {"RUSTC=x"}, {"XDG_CONFIG_HOME=x"}, {"VIMINIT=x"}, {"ERL_FLAGS=x"},
	} {
		if CheckEnv(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestCheckOfScripts: a script counts as its interpreter, even below /usr.
func TestCheckOfScripts(t *testing.T) {
	t.Parallel()
	at := func(path, shebang string) Program {
		return Program{Executable: tool.Executable{Path: path}, Basename: filepath.Base(path), Called: filepath.Base(path), Shebang: shebang}
	}
	for _, c := range []struct {
		program            Program
		plain, interpreted bool // refused?
	}{
		{at("/usr/bin/pdb3", "python3.11"), true, false}, {at("/usr/bin/pip", "python3"), true, false}, {at("/usr/bin/ldd", "bash"), false, false},
		{at("/usr/bin/git", ""), false, false}, {at("/w/run", "bash"), true, true}, {at("/w/x.py", "python3"), true, false},
	} {
		if err := c.program.Check(NoInterpreters); (err != nil) != c.plain {
			t.Errorf("%s: %v", c.program.Path, err)
		}
		if err := c.program.Check(InterpretersOfFiles); (err != nil) != c.interpreted {
			t.Errorf("%s with interpreters: %v", c.program.Path, err)
		}
		if err := c.program.Check(InterpretersByPolicy); err != nil {
			t.Errorf("%s where policy decides: %v", c.program.Path, err)
		}
	}
}

// TestOriginOf: a program belongs to the system by its directory, not by its name. A directory
// whose name only starts like a system directory's does not count.
func TestOriginOf(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"/usr/bin/make": tool.OriginSystem, "/bin/make": tool.OriginSystem, "/usr/local/sbin/make": tool.OriginSystem,
		"/usrlocal/bin/make": tool.OriginOther, "/home/me/usr/bin/make": tool.OriginOther, "/opt/make": tool.OriginOther, "/usr/../opt/make": tool.OriginOther,
	} {
		if got := originOf(filepath.Clean(at)); runtime.GOOS == "linux" && got != want {
			t.Errorf("%s is %s, want %s", at, got, want)
		}
	}
}

// TestCopyOf: a copy under another name counts as the same program.
func TestCopyOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"bin/dash": "\x7fELFdash", "bin/perl": "\x7fELFperl", "bin/git": "\x7fELFgit!", "w/tool": "\x7fELFdash", "w/p": "\x7fELFperl", "w/own": "\x7fELFown!", "w/g": "\x7fELFgit!"} {
		write(t, filepath.Join(dir, name), content, 0o755)
	}
	var r Resolver
	for name, want := range map[string]string{"tool": "dash", "p": "perl", "own": "", "g": ""} {
		p := must.Get(r.ResolveExecutable(filepath.Join(dir, "w", name), nil))(t)
		if p.Check(NoInterpreters) != nil {
			t.Fatalf("%s: the name alone is refused", name)
		}
		p = r.CopyOf(p, []string{"bin", filepath.Join(dir, "none"), filepath.Join(dir, "bin")})
		if p.Copy != want || (p.Check(NoInterpreters) != nil) != (want != "") || (p.Check(InterpretersOfFiles) != nil) != (want == "dash") {
			t.Errorf("%s is a copy of %q, want %q", name, p.Copy, want)
		}
		if want == "perl" && (!p.IsInterpreter() || !p.Facts([]string{"./p", "-e", "1"}).InlineCode || !p.ReadsCodeFromStdin([]string{"./p"})) {
			t.Error("a copied interpreter is none")
		}
	}
}

// TestChanged: operands are compared by their current bytes.
func TestChanged(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"same", "other", "gone", "d/f"} {
		write(t, filepath.Join(root, name), name, 0o644)
	}
	named, err := Operands(root, "", []string{"cat", "same", "other", "gone", "d/f", "d/none", "https://d/none", "none"}, "cat")
	was := named.Operands
	if err != nil || len(was) != 4 || named.Unbound != 1 {
		t.Fatal(named, err)
	}
	if changed, err := Changed(root, was); err != nil || len(changed) != 0 {
		t.Errorf("nothing changed, and still %v, %v", changed, err)
	}
	write(t, filepath.Join(root, "other"), "OTHER", 0o644)
	must.Do(t, os.Remove(filepath.Join(root, "gone")))
	if changed, err := Changed(root, was); err != nil || !slices.Equal(changed, []string{"gone", "other"}) {
		t.Errorf("changed: %v, %v", changed, err)
	}
}

func FuzzGuards(f *testing.F) {
	root := f.TempDir()
	write(f, filepath.Join(root, "a.py"), "1", 0o644)
	for _, line := range []string{"python3 -Ic x", "awk -f a.py", "perl -i.bak -pe s", "cat ../../etc/passwd", "sh -- -c", "x=a.py @a.py", "php -", "- - -"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, " ")
		if CheckArgv(argv) != nil {
			return
		}
		base := filepath.Base(argv[0])
		_ = ReadsCodeFromStdin(base, argv)
		if family := Family(base); Denied(base, NoInterpreters) != nil && Denied(family, NoInterpreters) == nil {
			t.Errorf("%q is denied and its family %q is not", base, family)
		}
		if InlineCode(base, argv) && Denied(base, NoInterpreters) == nil {
			t.Errorf("%q takes inline code and is not denied", argv)
		}
		named := must.Get(Operands(root, "", argv, base))(t)
		for _, o := range named.Operands {
			if o.Path != "a.py" {
				t.Errorf("operand %q", o.Path)
			}
		}
		_ = CheckEnv(argv)
	})
}
