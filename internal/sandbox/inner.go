package sandbox

import (
	"path"
	"slices"
	"strings"

	"palyra/internal/tool"
)

// Inner is what a program starts because its arguments say so.
type Inner struct {
	// Commands are the command lines that are certain.
	Commands [][]string
	// Texts are lines for a shell, or may name a command.
	Texts []string
	// Unknown is true where more may start than Commands says.
	Unknown bool
}

// Any reports whether the program may start another one.
func (i Inner) Any() bool { return i.Unknown || len(i.Commands)+len(i.Texts) > 0 }

func (i *Inner) add(other Inner) {
	i.Commands = append(i.Commands, other.Commands...)
	i.Texts = append(i.Texts, other.Texts...)
	i.Unknown = i.Unknown || other.Unknown || len(other.Texts) > 0
}

// InnerOf reads what a program of that name starts when it gets argv, whose first word
// is the program. Launchers such as env, which always start something, are not read.
func InnerOf(basename string, argv []string) Inner {
	var inner Inner
	if len(argv) == 0 {
		return inner
	}
	family := wrapperFamily(basename)
	if v, ok := verbsOf[family]; ok {
		inner.add(v.inner(argv[1:]))
	}
	if o, ok := optionsOf[family]; ok {
		inner.add(o.inner(argv[1:]))
	}
	if read, ok := readers[family]; ok {
		inner.add(read(argv[1:]))
	}
	return inner
}

// deepestInner bounds how many programs that start one another are read.
const deepestInner = 4

// Starts names the commands that argv has a program of one of the names start, as
// tool.ExecFacts does.
func Starts(names, argv []string) []string {
	var inner Inner
	for _, name := range names {
		inner.add(InnerOf(name, argv))
	}
	out := inner.names(deepestInner)
	slices.Sort(out)
	return slices.Compact(out)
}

// names are the commands with those that they start themselves.
func (i Inner) names(depth int) []string {
	var out []string
	if i.Unknown || len(i.Texts) > 0 {
		out = append(out, tool.StartsUnknown)
	}
	for _, argv := range i.Commands {
		name := argv[0]
		lower := strings.ToLower(path.Base(name)) // some file systems take both for the same
		out = append(out, name, path.Base(name), lower, strings.TrimSuffix(lower, ".exe"))
		switch {
		case depth == 0, StartsOthers(name), IsShell(name), InlineCode(name, argv), ReadsCodeFromStdin(name, argv):
			out = append(out, tool.StartsUnknown)
		default:
			out = append(out, InnerOf(name, argv).names(depth-1)...)
		}
	}
	return out
}

// wrapperFamily is the Family of a program in the tables below: without a version.
func wrapperFamily(basename string) string {
	family := Family(basename)
	if !isWrapper(family) {
		family = strings.TrimRight(strings.TrimRight(family, "0123456789."), "-")
	}
	if other, ok := sameWrapper[family]; ok {
		return other
	}
	return family
}

func isWrapper(family string) bool {
	_, verbs := verbsOf[family]
	_, options := optionsOf[family]
	_, reader := readers[family]
	return verbs || options || reader || sameWrapper[family] != ""
}

var sameWrapper = map[string]string{
	"gtar": "tar", "bsdtar": "tar", "gsed": "sed", "ssed": "sed", "gmake": "make", "gnumake": "make", "bmake": "make", "fdfind": "fd",
	"mamba": "conda", "micromamba": "conda", "rtx": "mise", "nodenv": "rbenv", "pyenv": "rbenv", "goenv": "rbenv", "jenv": "rbenv", "asdf": "rbenv",
	"npm-cli.js": "npm", "npx-cli.js": "npx", "yarn.js": "yarn", "yarnpkg": "yarn", "pnpm.cjs": "pnpm", "pnpx": "npx", "bundler": "bundle",
	"g++": "gcc", "cc": "gcc", "c++": "gcc", "clang": "gcc", "clang++": "gcc", "more": "less", "sftp": "scp", "cross-env-shell": "cross-env",
}

// verbs says behind which words of a program the command stands that it starts.
type verbs struct {
	// names are the subcommands, in one or two words; none where the command is the
	// first operand of the program itself.
	names []string
	// plain are options before the command that do not change what it is, skip counts
	// the operands before it.
	plain []string
	skip  int
	// dashes is true where the command stands behind "--" alone.
	dashes bool
}

var verbsOf = map[string]verbs{
	"uv":     {names: []string{"run", "tool run"}, plain: []string{"--frozen", "--locked", "--no-sync", "--offline", "--isolated", "-q", "--quiet"}},
	"uvx":    {plain: []string{"--offline", "--isolated", "-q", "--quiet"}},
	"pipx":   {names: []string{"run"}},
	"poetry": {names: []string{"run"}},
	"pdm":    {names: []string{"run"}},
	"hatch":  {names: []string{"run"}},
	"rye":    {names: []string{"run"}},
	"pipenv": {names: []string{"run"}},
	"conda":  {names: []string{"run"}},
	"npm":    {names: []string{"exec", "x"}, plain: []string{"-y", "--yes", "--no", "--offline"}},
	"npx":    {plain: []string{"-y", "--yes", "--no", "--offline", "--bun"}},
	"bunx":   {plain: []string{"--bun"}},
	"bun":    {names: []string{"x"}},
	"pnpm":   {names: []string{"exec", "dlx"}},
	"yarn":   {names: []string{"exec", "dlx", "run"}},
	"bundle": {names: []string{"exec"}},
	"rbenv":  {names: []string{"exec"}},
	"mise":   {names: []string{"exec", "x"}, dashes: true},
	"direnv": {names: []string{"exec"}, skip: 1},
	"devbox": {names: []string{"run"}, plain: []string{"-q", "--quiet"}},
	"nix":    {names: []string{"run"}},
}

// inner reads the arguments of the program.
func (v verbs) inner(args []string) Inner {
	if len(v.names) > 0 {
		rest, found, certain := v.behind(args)
		switch {
		case !certain:
			return Inner{Unknown: true}
		case !found:
			return Inner{}
		}
		args = rest
	} else if len(args) == 1 && (args[0] == "--version" || args[0] == "--help") {
		return Inner{}
	}
	if v.dashes {
		at := slices.Index(args, "--")
		if at < 0 || slices.ContainsFunc(args[:at], func(word string) bool { return strings.HasPrefix(word, "-") }) {
			return Inner{Unknown: true}
		}
		args = args[at:]
	}
	for len(args) > 0 && slices.Contains(v.plain, args[0]) {
		args = args[1:]
	}
	for range v.skip {
		if len(args) == 0 || !operand(args[0]) {
			return Inner{Unknown: true}
		}
		args = args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || !operand(args[0]) {
		return Inner{Unknown: true}
	}
	return Inner{Commands: [][]string{args}}
}

// behind returns what follows the subcommand that starts a program. It is not certain
// where an option before it may take the next word as its value.
func (v verbs) behind(args []string) (rest []string, found, certain bool) {
	for _, name := range v.names {
		words := strings.Fields(name)
		if len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			return args[len(words):], true, true
		}
		if len(args) > 0 && !operand(args[0]) && slices.Contains(args, words[len(words)-1]) {
			return nil, true, false
		}
	}
	return nil, false, true
}

// commandOptions are options of a program whose value is a command, or names code that
// the program runs.
type commandOptions struct {
	// long are whole words, with or without "=value". short are letters, also in
	// combined flags; the value is the rest of the word or the next one.
	long  []string
	short string
	// abbreviated is true where a beginning of a long option counts as the option.
	abbreviated bool
	// bare is true where the first argument may be letters without a dash: tar xIf.
	bare bool
	// stuck are options whose value is the rest of the word.
	stuck []string
	// plus is true where a word that begins with + is a command.
	plus bool
}

var optionsOf = map[string]commandOptions{
	"tar":     {long: []string{"--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--info-script", "--new-volume-script"}, short: "IF", abbreviated: true, bare: true},
	"rsync":   {long: []string{"--rsh", "--rsync-path"}, short: "e"},
	"scp":     {short: "SoDF"},
	"zip":     {long: []string{"-TT", "--unzip-command"}},
	"sort":    {long: []string{"--compress-program"}, abbreviated: true},
	"split":   {long: []string{"--filter"}, abbreviated: true},
	"cpio":    {long: []string{"--rsh-command"}, abbreviated: true},
	"man":     {long: []string{"--pager", "--html", "--config-file"}, short: "PHC", abbreviated: true},
	"less":    {plus: true},
	"wget":    {long: []string{"--use-askpass", "--execute", "--config"}, short: "e", abbreviated: true},
	"tcpdump": {short: "z"},
	"gcc":     {long: []string{"-wrapper", "-fplugin", "-specs", "--specs"}, stuck: []string{"-B"}},
	"go":      {long: []string{"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool"}},
	"cargo":   {long: []string{"--config"}},
	"cmake":   {long: []string{"-E"}},
	"nodemon": {long: []string{"--exec"}, short: "x"},
	"make":    {long: []string{"--eval"}, short: "E", abbreviated: true},
}

// inner reads the values of the options. What follows "--" is read like the rest: not
// every program ends its options there.
func (o commandOptions) inner(args []string) Inner {
	var inner Inner
	for i, word := range args {
		value, stuck, ok := o.value(word, i == 0)
		if !ok {
			continue
		}
		inner.Unknown = true
		if !stuck && i+1 < len(args) {
			value = args[i+1]
		}
		if value = strings.TrimPrefix(value, "exec="); value != "" { // tar's actions
			inner.Texts = append(inner.Texts, value)
		}
	}
	return inner
}

// value reports whether a word is one of the options, with its value where this is stuck
// to it.
func (o commandOptions) value(word string, first bool) (value string, stuck, ok bool) {
	if rest, plus := strings.CutPrefix(word, "+"); plus && o.plus {
		return rest, true, true
	}
	for _, option := range o.stuck {
		if rest, is := strings.CutPrefix(word, option); is {
			return rest, rest != "", true
		}
	}
	name, value, stuck := strings.Cut(word, "=")
	for _, option := range o.long {
		if name == option || o.abbreviated && len(name) > len("--") && strings.HasPrefix(name, "--") && strings.HasPrefix(option, name) {
			return value, stuck, true
		}
	}
	letters, dash := strings.CutPrefix(word, "-")
	if strings.HasPrefix(letters, "-") || !dash && !(first && o.bare) {
		return "", false, false
	}
	if at := strings.IndexAny(letters, o.short); at >= 0 {
		return letters[at+1:], dash && at+1 < len(letters), true
	}
	return "", false, false
}
