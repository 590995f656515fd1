package takeover

import (
	"os"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
)

// The ecosystems of packages, as the gateway calls them.
const (
	npm  = "npm"
	pypi = "pypi"
)

// Fetched is a command line of npx, bunx, uvx, pipx and the like, which fetch a package
// at each start.
type Fetched struct {
	Ecosystem, Name, Version string
	// Program is the named program, "" for the package's default; Args are its arguments.
	Program string
	Args    []string
}

// Installed is the result of package.install, by which the gateway installs a package.
type Installed struct {
	Package struct {
		Prefix string `json:"prefix"`
	} `json:"package"`
	Program  string   `json:"program"`
	Programs []string `json:"programs"`
}

// Declared returns the package in the form of a server's definition.
func (i Installed) Declared() *palyrav1.UpstreamPackage {
	return &palyrav1.UpstreamPackage{Prefix: i.Package.Prefix}
}

// runner is a program that fetches packages.
type runner struct {
	ecosystem string
	// words follow the program to make it fetch, such as "tool run" of uv.
	words []string
	// from are options that name the package if the program is named separately, and silent are
	// options that are irrelevant here.
	from, silent []string
}

var (
	npxSilent = []string{"-y", "--yes", "-q", "--quiet", "--silent", "-s", "--bun", "--prefer-online", "--prefer-offline", "--ignore-existing", "--no-install"}
	uvxSilent = []string{"-q", "--quiet", "-v", "--verbose", "--no-cache", "-n", "--isolated", "--no-config", "--refresh", "-U", "--upgrade", "--no-progress", "--managed-python", "--no-managed-python"}
	npxFrom   = []string{"-p", "--package"}
)

var runners = map[string][]runner{
	"npx":  {{ecosystem: npm, from: npxFrom, silent: npxSilent}},
	"bunx": {{ecosystem: npm, from: npxFrom, silent: npxSilent}},
	"npm":  {{ecosystem: npm, words: []string{"exec"}, from: npxFrom, silent: npxSilent}, {ecosystem: npm, words: []string{"x"}, from: npxFrom, silent: npxSilent}},
	"bun":  {{ecosystem: npm, words: []string{"x"}, from: npxFrom, silent: npxSilent}},
	"pnpm": {{ecosystem: npm, words: []string{"dlx"}, from: npxFrom, silent: npxSilent}},
	"yarn": {{ecosystem: npm, words: []string{"dlx"}, from: npxFrom, silent: npxSilent}},
	"uvx":  {{ecosystem: pypi, from: []string{"--from"}, silent: uvxSilent}},
	"uv":   {{ecosystem: pypi, words: []string{"tool", "run"}, from: []string{"--from"}, silent: uvxSilent}},
	"pipx": {{ecosystem: pypi, words: []string{"run"}, from: []string{"--spec"}, silent: []string{"-q", "--quiet", "-v", "--verbose", "--no-cache"}}},
}

// programOf returns the name of a program without its directory and Windows extension.
func programOf(command string) string {
	program := strings.ToLower(command[strings.LastIndexAny(command, `/\`)+1:])
	return strings.TrimSuffix(strings.TrimSuffix(program, ".exe"), ".cmd")
}

// valued has, for each program, the options before the subcommand that have a value.
var valued = map[string][]string{
	"uv":   {"--directory", "--project", "--cache-dir", "--config-file", "--color", "--allow-insecure-host", "--python-preference"},
	"npm":  {"--prefix", "-C", "--registry", "--cache", "--userconfig", "-w", "--workspace", "--loglevel"},
	"pnpm": {"-C", "--dir", "-F", "--filter", "--reporter", "--loglevel"},
	"yarn": {"--cwd", "--cache-folder"},
	"bun":  {"--cwd", "-c", "--config"},
}

// front returns the options before the subcommand of a program, and the rest.
func front(program string, args []string) (options, rest []string) {
	at := 0
	for at < len(args) && strings.HasPrefix(args[at], "-") {
		if slices.Contains(valued[program], args[at]) {
			at++
		}
		at++
	}
	at = min(at, len(args))
	return args[:at], args[at:]
}

// directoryOf returns the working directory that options set, "" for none.
func directoryOf(args []string) string {
	for i, arg := range args {
		option, value, joined := strings.Cut(arg, "=")
		switch {
		case !slices.Contains([]string{"--directory", "--project", "--prefix", "--dir", "--cwd", "-C"}, option):
		case joined:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

// Words splits a command line whose first word may be a whole line ("npx -y @x/y"), or returns why
// it cannot: shell syntax is not parsed. `cmd /c`, by which clients start scripts on Windows, is
// removed.
func Words(argv []string) (words []string, why string) {
	if len(argv) == 0 {
		return argv, ""
	}
	if len(argv) > 2 && programOf(argv[0]) == "cmd" && strings.EqualFold(argv[1], "/c") {
		return Words(argv[2:])
	}
	line := strings.Fields(argv[0])
	if len(line) < 2 || runners[programOf(argv[0])] != nil || exists(argv[0]) {
		return argv, ""
	}
	if strings.ContainsAny(argv[0], "'\"`$&|;<>(){}*?~#\\") {
		return nil, "its command is a line for a shell: put the program into the command, and each of its words into the arguments"
	}
	if strings.Contains(line[0], "/") && !exists(line[0]) {
		return argv, ""
	}
	return append(line, argv[1:]...), ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Fetch reads a command line. is reports whether it fetches its program. why is the reason if
// the command line cannot be moved, "" if it can.
func Fetch(argv []string) (f Fetched, why string, is bool) {
	if len(argv) == 0 {
		return f, "", false
	}
	program := programOf(argv[0])
	for _, r := range runners[program] {
		options, rest := []string(nil), argv[1:]
		if len(r.words) > 0 {
			options, rest = front(program, rest)
		}
		if len(rest) >= len(r.words) && slices.Equal(rest[:len(r.words)], r.words) {
			f, why = r.read(strings.Join(append([]string{program}, r.words...), " "), slices.Concat(options, rest[len(r.words):]))
			return f, why, true
		}
	}
	return f, "", false
}

// read parses the arguments of the runner.
func (r runner) read(called string, args []string) (f Fetched, why string) {
	spec := ""
	for args = apart(args); len(args) > 0 && strings.HasPrefix(args[0], "-"); args = apart(args[1:]) {
		option, value, joined := strings.Cut(args[0], "=")
		switch {
		case option == "--":
		case slices.Contains(r.silent, args[0]):
		case slices.Contains(r.from, option) && spec == "" && (joined || len(args) > 1):
			if spec = value; !joined {
				spec, args = args[1], args[1:]
			}
		case directoryOf(args[:min(2, len(args))]) != "":
			return f, called + " works in the directory " + directoryOf(args) + ", which the sandbox does not have: add it with --workspace, without " + option
		default:
			return f, "the option " + option + " of " + called + " has no meaning for a package that is installed once: leave it out"
		}
	}
	if len(args) == 0 {
		return f, called + " names no package"
	}
	if spec == "" {
		spec = args[0]
	} else {
		f.Program = args[0]
	}
	f.Ecosystem, f.Args = r.ecosystem, args[1:]
	f.Name, f.Version = split(r.ecosystem, spec)
	if strings.ContainsAny(f.Name+f.Version, ":\\ ") || strings.Count(f.Name, "/") > strings.Count(f.Name[:min(1, len(f.Name))], "@") || strings.HasPrefix(f.Name, ".") || strings.Contains(f.Version, "/") || f.Name == "" {
		return f, spec + " is not a registry package with a digest: install it yourself, and name the installed program"
	}
	return f, ""
}

// apart splits a first argument that contains several words ("-y @x/y"): options and packages
// contain no spaces.
func apart(args []string) []string {
	if len(args) == 0 || !strings.ContainsAny(args[0], " \t") {
		return args
	}
	return append(strings.Fields(args[0]), args[1:]...)
}

// split removes the version from the name of a package: "@x/y@1.2", "name==1.0", "name@latest".
func split(ecosystem, spec string) (name, version string) {
	if at := strings.LastIndex(spec, "@"); at > 0 {
		return spec[:at], spec[at+1:]
	}
	if at := strings.IndexAny(spec, "=<>!~"); at > 0 && ecosystem == pypi {
		return spec[:at], strings.TrimPrefix(spec[at:], "==")
	}
	return spec, ""
}

// Started returns the command line of the installed program. program is the package's default
// program; programs are all programs of the package.
func (f Fetched) Started(program string, programs []string) (argv []string, why string) {
	if f.Program != "" {
		program = f.Program
	}
	switch {
	case program == "":
		return nil, "the package " + f.Name + " has no program of its own name, but " + strings.Join(programs, ", ") + ": name the one that is meant"
	case !slices.Contains(programs, program):
		return nil, "the package " + f.Name + " has no program " + program + ", but " + strings.Join(programs, ", ")
	}
	return append([]string{program}, f.Args...), ""
}

// Named returns the package with the requested version, for display.
func (f Fetched) Named() string { return strings.TrimSpace(f.Name + " " + f.Version) }
