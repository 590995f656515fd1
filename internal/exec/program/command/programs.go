package command

import (
	"path"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
)

// shells run code that may contain the names of other programs.
var shells = []string{
	"sh", "ash", "bash", "rbash", "dash", "zsh", "ksh", "ksh93", "mksh", "pdksh", "yash", "fish", "csh", "tcsh", "rc", "es", "elvish", "nu", "xonsh",
	"cmd", "powershell", "pwsh", "sash", "posh", "loksh", "oksh", "lksh", "osh", "ysh", "scsh", "bsh", "command.com",
}

// launchers start another program and would thereby hide its name from the guards.
var launchers = []string{
	"env", "xargs", "parallel", "sudo", "sudoedit", "doas", "su", "runuser", "pkexec", "setsid", "nohup", "setpriv", "chroot",
	"unshare", "nsenter", "bwrap", "firejail", "systemd-run", "at", "batch", "crontab", "script", "screen", "tmux", "expect", "unbuffer",
	"nice", "ionice", "chrt", "taskset", "timeout", "stdbuf", "time", "watch", "strace", "ltrace", "gdb", "flock", "prlimit", "capsh", "dbus-run-session",
	"setarch", "linux32", "linux64", "uname26", "i386", "i486", "i586", "i686", "x86_64", "run-parts", "sg", "newgrp", "choom", "ssh-agent", "prove",
	"busybox", "toybox", "ld.so", "ld-linux", "palyra-init",
	"sulogin", "agetty", "runas", "run0", "gosu", "su-exec", "calife",
	"systemd-nspawn", "systemd-inhibit", "machinectl", "systemctl", "initctl", "start-stop-daemon", "daemonize", "cron", "crond", "anacron", "atd", "inetd", "xinetd",
	"tini", "dumb-init", "catatonit", "supervisord", "runsv", "runsvdir", "chpst", "softlimit", "setuidgid", "envdir", "envuidgid", "s6-setuidgid", "execlineb",
	"docker", "podman", "nerdctl", "ctr", "runc", "crun", "buildah", "lxc-execute", "lxc-start", "flatpak", "snap", "flatpak-spawn", "proot", "fakeroot", "fakechroot", "faketime",
	"cgexec", "rsh", "rlogin", "ssh", "sshpass", "mosh", "socat", "byobu", "tmate", "dtach", "abduco", "zellij", "rlwrap", "reptyr", "entr", "mispipe", "chronic", "ifne",
	"valgrind", "perf", "lldb", "rr", "bpftrace", "uftrace", "catchsegv", "xvfb-run", "dbus-launch", "xterm", "eatmydata", "hyperfine", "forfiles", "wine", "wsl",
}

// interpreters run code from a file or the command line.
var interpreters = []string{
	"python", "pypy", "ipython", "perl", "ruby", "irb", "node", "nodejs", "deno", "bun", "php", "php-cgi", "lua", "luajit", "texlua", "tclsh", "wish",
	"r", "rscript", "julia", "java", "jshell", "groovy", "scala", "osascript", "awk", "gawk", "mawk", "nawk", "ghc", "runghc", "elixir", "erl", "escript",
	"guile", "racket", "sbcl", "clisp", "ocaml", "swipl", "gjs", "qjs", "ts-node", "tsx", "npx", "bunx", "uvx", "pipx", "ed", "ex", "vi", "vim", "nvim", "emacs",
	"view", "rview", "rvim", "gvim", "gview", "rgvim", "rgview", "vimdiff", "gvimdiff", "evim", "eview", "nvi", "nex", "nview", "elvis", "vile", "vimx",
	"jython", "micropython", "jruby", "mruby", "raku", "perl6", "ghci", "iex", "octave", "clojure", "clj", "kotlin", "kotlinc", "swift", "dart", "crystal", "janet",
	"ecl", "gst", "gforth", "d8", "jsc", "mujs", "cscript", "wscript", "mshta", "wasmtime", "wasmer", "gnuplot", "m4",
}

// build matches a name with a version and a build suffix: python3.12-dbg,
// perl5.36-x86_64-linux-gnu, busybox.static, python3.7m.
var build = lazyregexp.New(`^([a-z][a-z_-]+[a-z])-?([0-9]{1,3}(\.[0-9]+)*[mtdu]{0,2})?([.-](dbg|debug|static|x86_64[a-z0-9_-]*|aarch64[a-z0-9_-]*))?$`)

// alternative matches the name of one of several builds of a program, as in Debian's
// alternatives: vim.basic, emacs-nox, awk.real.
var alternative = lazyregexp.New(`^(.+)[.-](basic|tiny|nox|gtk[0-9]?|athena|gnome|lucid|motif|pgtk|huge|normal|small|real|orig|original|distrib|dist|bin|openbsd|traditional)$`)

// Family returns the name of a program for the tables: without directory, version and case, so
// that "Python3.12" becomes "python" and "bash.exe" becomes "bash".
func Family(name string) string {
	name = strings.ToLower(path.Base(strings.ReplaceAll(name, `\`, "/")))
	for _, suffix := range []string{".exe", ".com", ".bat", ".cmd"} {
		name = strings.TrimSuffix(name, suffix)
	}
	name = strings.TrimLeft(name, "-") // argv[0] of a login shell
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") {
		return "ld-linux"
	}
	if known(name) {
		return name
	}
	if m := build.FindStringSubmatch(name); m != nil && known(m[1]) {
		return m[1]
	}
	if m := alternative.FindStringSubmatch(name); m != nil && (known(Family(m[1])) || isWrapper(m[1])) {
		return Family(m[1])
	}
	return name
}

func known(family string) bool {
	return slices.Contains(shells, family) || slices.Contains(launchers, family) || slices.Contains(interpreters, family)
}

// IsInterpreter reports whether a program runs code that it receives. Shells do.
func IsInterpreter(basename string) bool {
	return slices.Contains(interpreters, Family(basename)) || IsShell(basename)
}

// IsShell reports whether a program is a shell.
func IsShell(basename string) bool { return slices.Contains(shells, Family(basename)) }

// StartsOthers reports whether a program always starts another one from its arguments.
func StartsOthers(basename string) bool { return slices.Contains(launchers, Family(basename)) }

// Interpreters selects which programs that run code pass the guards. The zero value selects none.
type Interpreters uint8

const (
	// NoInterpreters refuses interpreters and shells.
	NoInterpreters Interpreters = iota
	// InterpretersOfFiles allows interpreters to run files; inline code and shells are refused.
	InterpretersOfFiles
	// InterpretersByPolicy refuses none of them: policy receives them as facts, and the sandbox
	// contains the code that they run.
	InterpretersByPolicy
)

// Denied refuses a program by its name after symlinks are resolved: launchers, and interpreters
// and shells unless they are allowed.
func Denied(basename string, let Interpreters) error {
	family := Family(basename)
	switch {
	case StartsOthers(basename), slices.Contains(shells, family) && let != InterpretersByPolicy:
		return reason.Errorf(reason.ExecutableDenied, "%s starts other programs, which is not allowed; name the program itself", shorten(basename)).
			WithRemedy("Call the program directly, with its arguments as a list.")
	case slices.Contains(interpreters, family) && let == NoInterpreters:
		return reason.Errorf(reason.ExecutableDenied, "%s is an interpreter, and interpreters are not allowed here", shorten(basename)).
			WithRemedy("Use another program, or ask the operator to set process_runner.allow_interpreters = true.")
	}
	return nil
}
