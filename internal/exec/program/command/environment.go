package command

import (
	"slices"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// WorkspaceMount is the mount point of the workspace inside the sandbox.
const WorkspaceMount = "/workspace"

// Home is the home directory inside the sandbox; it is empty at the start and removed after the
// run.
const Home = "/home/tool"

// steering are variables whose value can make a loader, an interpreter or a well-known tool run
// code or read options chosen by the caller. A trailing "*" matches every longer name. Case is
// ignored: npm reads npm_config_script_shell.
var steering = []string{
	"LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "RES_OPTIONS", "LOCALDOMAIN",
	"BASH_ENV", "BASH_FUNC_*", "ENV", "IFS", "PS4", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "CDPATH", "ZDOTDIR",
	"PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PYTHONWARNINGS", "PYTHONUSERBASE", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX",
	"PERL5OPT", "PERL5LIB", "PERLLIB", "PERL5DB", "RUBYOPT", "RUBYLIB", "RUBYSHELL",
	"NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "DENO_*", "BUN_OPTIONS", "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*",
	"ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ELIXIR_ERL_OPTIONS", "R_PROFILE*", "R_ENVIRON*", "R_LIBS*", "JULIA_LOAD_PATH", "JULIA_DEPOT_PATH", "TCLLIBPATH", "TCL_LIBRARY",
	"GUILE_LOAD_PATH", "EMACSLOADPATH", "VIMINIT", "GVIMINIT", "MYVIMRC", "EXINIT", "GEM_HOME", "GEM_PATH",
	"NPM_CONFIG_*", "YARN_YARN_PATH", "YARN_RC_FILENAME", "YARN_PLUGINS", "BUNDLE_GEMFILE", "BUNDLE_PATH", "BUNDLE_APP_CONFIG", "BUNDLE_USER_*", "RAKEOPT", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "MAVEN_OPTS", "MAVEN_ARGS", "GRADLE_OPTS", "JAVA_OPTS",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "PHPRC", "PHP_INI_SCAN_DIR",
	"GIT_SSH*", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "GIT_PROXY_COMMAND",
	"GIT_CONFIG*", "GIT_DIR", "GIT_WORK_TREE", "GIT_TEMPLATE_DIR", "GIT_ALLOW_PROTOCOL", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"PAGER", "MANPAGER", "EDITOR", "VISUAL", "BROWSER", "SHELL", "LESSOPEN", "LESSCLOSE", "SSH_ASKPASS", "SUDO_ASKPASS",
	"MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "CC_WRAPPER", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_BUILD_*", "CARGO_TARGET_*",
	"GOFLAGS", "GOTOOLDIR", "GOENV", "GOTOOLCHAIN", "GOCACHEPROG", "PKG_CONFIG", "RUSTC", "RUSTDOC", "CARGO_ALIAS_*", "CARGO_HOME", "RUSTUP_*", "GCC_EXEC_PREFIX", "COMPILER_PATH", "TAR_OPTIONS", "AWKPATH", "AWKLIBPATH",
	"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", // read by git and others
}

// harmless are variables that match a pattern of steering but only select trusted authorities,
// proxies or the verbosity.
var harmless = []string{
	"NPM_CONFIG_CAFILE", "NPM_CONFIG_LOGLEVEL", "NPM_CONFIG_AUDIT", "NPM_CONFIG_FUND", "NPM_CONFIG_PROGRESS", "NPM_CONFIG_COLOR",
	"NPM_CONFIG_OFFLINE", "NPM_CONFIG_PREFER_OFFLINE", "NPM_CONFIG_UPDATE_NOTIFIER", "DENO_CERT", "DENO_NO_UPDATE_CHECK",
}

// SearchPath lists the system directories of programs. Installed toolchains follow them
// (PathWith).
func SearchPath() []string {
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}

// Environment returns the variables of a program, named by its real path: a few defaults and the
// checked variables env, which take precedence.
func Environment(program string, env []string, toolchains []Toolchain) []string {
	out := []string{"PATH=" + strings.Join(pathFor(program, toolchains), ":"), "HOME=" + Home}
	for _, pair := range []string{"LANG=C.UTF-8", "TERM=dumb"} {
		name, _, _ := strings.Cut(pair, "=")
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			out = append(out, pair)
		}
	}
	for _, t := range toolchains {
		out = append(out, t.Env...)
	}
	return append(out, env...)
}

// fixed are variables that only the sandbox sets.
var fixed = []string{"HOME", "PATH", "TMPDIR"}

// CheckEnv refuses a variable that is malformed, set twice, reserved for the sandbox, or that
// steers a loader or interpreter. Values have the limits of arguments.
func CheckEnv(env []string) error {
	seen := make(map[string]bool, len(env))
	if len(env) > MaxArgs {
		return reason.Errorf(reason.InvalidInput, "the environment has %d variables, but at most %d are accepted", len(env), MaxArgs)
	}
	for _, pair := range env {
		name, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok || !validName(name):
			return reason.Errorf(reason.InvalidInput, "%q is not the name of an environment variable", shorten(name))
		case len(value) > MaxArgBytes || strings.IndexByte(value, 0) >= 0 || !utf8.ValidString(value):
			return reason.Errorf(reason.InvalidInput, "the value of the environment variable %s is too long, not UTF-8 or contains a NUL", name)
		case seen[name]:
			return reason.Errorf(reason.InvalidInput, "the environment variable %s is set twice", name)
		case slices.Contains(fixed, name):
			return reason.Errorf(reason.InvalidInput, "the environment variable %s is set by the sandbox", name)
		case Steers(name):
			return reason.Errorf(reason.InvalidInput, "the environment variable %s could make a program run other code", name)
		}
		seen[name] = true
	}
	return nil
}

// Steers reports whether a variable of this name can make a loader or an interpreter run other
// code.
func Steers(name string) bool {
	name = strings.ToUpper(name)
	if slices.Contains(harmless, name) {
		return false
	}
	return slices.ContainsFunc(steering, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == pattern
	})
}

// listed are variables whose values cannot name a file, a command, an option or a host, with their
// accepted values; nil accepts any plain word. Names are case-sensitive. NODE_ENV, DEBUG, GOOS,
// PYTHONIOENCODING and DEBIAN_FRONTEND are not listed, because their values select files, modules
// or programs.
var listed = map[string][]string{
	"LANG": nil, "LC_ALL": nil, "LC_COLLATE": nil, "LC_CTYPE": nil, "LC_MESSAGES": nil, "LC_MONETARY": nil, "LC_NUMERIC": nil, "LC_TIME": nil,
	"TZ":      {"UTC", "UTC0", "GMT", "GMT0"}, // other values name files
	"TERM":    {"dumb", "ansi", "linux", "vt100", "vt220", "xterm", "xterm-256color", "screen", "screen-256color", "tmux", "tmux-256color"},
	"COLUMNS": nil, "LINES": nil, "COLORTERM": nil, "NO_COLOR": nil, "FORCE_COLOR": nil, "CLICOLOR": nil, "CLICOLOR_FORCE": nil,
	"CI": nil, "DO_NOT_TRACK": nil, "SOURCE_DATE_EPOCH": nil, "OMP_NUM_THREADS": nil,
	"GOMAXPROCS": nil, "GOGC": nil, "GOMEMLIMIT": nil, "GOTRACEBACK": nil, "CGO_ENABLED": nil,
	"RUST_BACKTRACE": nil, "RUST_LIB_BACKTRACE": nil, "CARGO_TERM_COLOR": nil,
	"PYTHONUNBUFFERED": nil, "PYTHONDONTWRITEBYTECODE": nil, "PYTHONHASHSEED": nil, "PYTHONFAULTHANDLER": nil, "PYTHONUTF8": nil,
	"PIP_DISABLE_PIP_VERSION_CHECK": nil, "PIP_NO_INPUT": nil, "NODE_NO_WARNINGS": nil,
	"NPM_CONFIG_LOGLEVEL": nil, "NPM_CONFIG_AUDIT": nil, "NPM_CONFIG_FUND": nil, "NPM_CONFIG_PROGRESS": nil, "NPM_CONFIG_COLOR": nil,
	"NPM_CONFIG_OFFLINE": nil, "NPM_CONFIG_PREFER_OFFLINE": nil, "NPM_CONFIG_UPDATE_NOTIFIER": nil,
	"GIT_TERMINAL_PROMPT": nil, "GIT_OPTIONAL_LOCKS": nil, "DOTNET_NOLOGO": nil, "DOTNET_CLI_TELEMETRY_OPTOUT": nil,
}

// plainWord matches values that are not a path, an option or an address.
var plainWord = lazyregexp.New(`^([A-Za-z0-9][A-Za-z0-9_.@-]{0,63})?$`)

// Listed reports whether a variable with this value is on the allow list: it cannot change what a
// program runs, reads, writes or reaches.
func Listed(name, value string) bool {
	values, ok := listed[name]
	return ok && plainWord.MatchString(value) && (values == nil || slices.Contains(values, value))
}

// Unlisted returns the variables of env ("name=value") that are not on the allow list.
func Unlisted(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		return Listed(name, value)
	})
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 128
}

// shorten truncates untrusted text for a message.
func shorten(content string) string { return text.Ellipsis(content, 64) }
