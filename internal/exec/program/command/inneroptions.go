package command

import (
	"slices"
	"strings"
	"unicode"

	"palyra/internal/core/lazyregexp"
)

// commandOptions are options of a program whose value is a command, or names code that the
// program runs.
type commandOptions struct {
	// long are whole words, with or without "=value". short are letters, also in combined flags;
	// the value is the rest of the word or the next one.
	long  []string
	short string
	// abbreviated is true if abbreviations of long options are accepted.
	abbreviated bool
	// oneDash is true if one dash before a long option is equivalent to two.
	oneDash bool
	// bare is true if the first argument may be letters without a dash: tar xIf.
	bare bool
	// stuck are options whose value is the rest of the word.
	stuck []string
	// plus is true if a word that begins with + is a command.
	plus bool
	// plain matches values that name no command, such as a version.
	plain *lazyregexp.Regexp
}

// version matches the version of an interpreter, which its manager finds by itself.
var version = lazyregexp.New(`^((c?python|pypy)[@-]?)?[<>=~^]{0,2}[0-9]{1,3}(\.[0-9*]{1,3}){0,2}t?$`)

var (
	debian   = commandOptions{long: []string{"--option", "--config-file"}, short: "oc"}
	binutils = commandOptions{long: []string{"--plugin", "-plugin", "-mllvm", "--load-pass-plugin", "-fplugin"}, abbreviated: true, oneDash: true}
	troff    = commandOptions{short: "UFM"}
	python   = commandOptions{long: []string{"--python"}, short: "p", plain: version}
	cluster  = commandOptions{long: []string{"--kubeconfig", "--post-renderer", "--repository-config", "--registry-config"}}
	network  = commandOptions{long: []string{"--exec", "--sh-exec", "--lua-exec"}, short: "ec"}
	tex      = commandOptions{long: []string{"-enable-write18", "--enable-write18", "-cnf-line", "--cnf-line"}}
	bus      = commandOptions{long: []string{"--host", "--machine", "--address"}, short: "HM", abbreviated: true}
)

// optionsOf lists options that the general rule of namesCode does not cover: options of other
// names, letters, and abbreviations where a program accepts them.
var optionsOf = map[string]commandOptions{
	"tar":               {long: []string{"--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--rmt-command", "--info-script", "--new-volume-script"}, short: "IF", abbreviated: true, bare: true},
	"rsync":             {long: []string{"--rsh", "--rsync-path"}, short: "e"},
	"scp":               {short: "SoDF"},
	"zip":               {long: []string{"--unzip-command"}, abbreviated: true},
	"sort":              {long: []string{"--compress-program"}, abbreviated: true},
	"split":             {long: []string{"--filter"}, abbreviated: true},
	"install":           {long: []string{"--strip-program"}, abbreviated: true},
	"sdiff":             {long: []string{"--diff-program"}, abbreviated: true},
	"diff3":             {long: []string{"--diff-program"}, abbreviated: true},
	"cpio":              {long: []string{"--rsh-command"}, abbreviated: true},
	"man":               {long: []string{"--pager", "--html", "--config-file", "--preprocessor"}, short: "PHC", abbreviated: true},
	"less":              {long: []string{"--lesskey-src", "--lesskey-file", "--lesskey-content"}, short: "k", abbreviated: true, plus: true},
	"wget":              {long: []string{"--use-askpass", "--execute", "--config"}, short: "e", abbreviated: true},
	"curl":              {long: []string{"--engine"}, abbreviated: true},
	"tcpdump":           {short: "z"},
	"gcc":               {long: []string{"-wrapper", "-specs", "--specs", "-Xclang", "-mllvm", "--config", "-gcc-toolchain", "--gcc-toolchain", "--ld-path"}, stuck: []string{"-B", "-fplugin", "-fpass-plugin", "-iplugindir"}},
	"tcc":               {long: []string{"-run"}, stuck: []string{"-B"}},
	"nvcc":              {long: []string{"-ccbin", "--compiler-bindir", "-optf", "--options-file"}},
	"ld":                binutils,
	"nm":                binutils,
	"ar":                binutils,
	"objdump":           binutils,
	"opt":               {long: []string{"-load", "--load"}},
	"go":                {long: []string{"-vettool", "--vettool", "-gccgoflags", "--gccgoflags"}},
	"cargo":             {long: []string{"--config"}},
	"make":              {long: []string{"--eval"}, short: "E", abbreviated: true},
	"rake":              {long: []string{"--execute", "--execute-print", "--execute-continue"}, short: "eEp", abbreviated: true},
	"just":              {short: "c"},
	"java":              {stuck: []string{"-XX:On", "-XX:Flags", "-XX:VMOptionsFile", "-agent", "-javaagent"}},
	"nodemon":           {long: []string{"--exec"}, short: "x"},
	"npm":               {long: []string{"--script-shell", "--shell", "--git", "--node-options", "--node-gyp", "--onload-script", "--editor", "--viewer", "--browser", "--userconfig", "--globalconfig", "--init-module", "--call"}, abbreviated: true, oneDash: true},
	"pip":               {long: []string{"--python", "--editor"}, abbreviated: true},
	"uv":                python,
	"pipx":              python,
	"virtualenv":        python,
	"tox":               {long: []string{"--override"}, short: "x"},
	"pylint":            {long: []string{"--init-hook", "--load-plugins"}, abbreviated: true},
	"nix":               {long: []string{"--option", "--builders"}},
	"rg":                {long: []string{"--pre", "--hostname-bin"}},
	"hg":                {long: []string{"--config", "--config-file", "--repository", "--cwd", "--ssh", "--remotecmd", "--tool"}, short: "Ret", abbreviated: true},
	"svn":               {long: []string{"--config-dir", "--config-option"}},
	"fzf":               {long: []string{"--bind", "--preview", "--with-shell", "--become"}},
	"nc":                network,
	"ssh-keygen":        {short: "Dw"},
	"ssh-add":           {short: "s"},
	"gpg":               {long: []string{"--agent-program", "--dirmngr-program", "--photo-viewer", "--exec-path", "--homedir", "--options", "--keyserver-options"}, abbreviated: true},
	"ctags":             {long: []string{"--options", "--optlib-dir"}, abbreviated: true},
	"pandoc":            {long: []string{"--filter", "--lua-filter", "--defaults"}, short: "FLd", abbreviated: true},
	"latex":             tex,
	"latexmk":           {long: []string{"-e", "-r", "-latex", "-pdflatex", "-xelatex", "-lualatex"}},
	"apt-get":           debian,
	"dpkg":              {long: []string{"--pre-invoke", "--post-invoke", "--status-logger", "--root", "--admindir", "--instdir", "--install", "--unpack", "--configure"}, short: "i"},
	"dpkg-architecture": {long: []string{"--command"}, short: "c"},
	"groff":             troff,
	"busctl":            bus,
	"kubectl":           cluster,
	"dotnet":            {long: []string{"-logger", "-distributedlogger", "-dl"}},
	"pytest":            {long: []string{"--pdbcls"}},
}

// inner parses the values of the options. Words after "--" are parsed as well, because not every
// program ends its options there.
func (o commandOptions) inner(args []string) Inner {
	var inner Inner
	for i, word := range args {
		value, stuck, ok := o.value(word, i == 0)
		if !ok {
			continue
		}
		if !stuck && i+1 < len(args) {
			value = args[i+1]
		}
		if o.plain != nil && o.plain.MatchString(value) {
			continue
		}
		inner.Unknown = true
		if value = strings.TrimPrefix(value, "exec="); value != "" { // tar's actions
			inner.Texts = append(inner.Texts, value)
		}
	}
	return inner
}

// value reports whether a word is one of the options, and returns its value if that is in the
// same word.
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
	if slices.ContainsFunc(o.long, func(option string) bool { return o.isLong(name, option) }) {
		return value, stuck, true
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

// isLong reports whether a name is the long option, or an abbreviation of it.
func (o commandOptions) isLong(name, option string) bool {
	dashes := "--"
	if o.oneDash {
		dashes = "-"
	}
	text := strings.TrimLeft(name, "-")
	return name == option || o.abbreviated && len(text) > 0 && len(dashes)+len(text) > 2 && strings.HasPrefix(name, dashes) &&
		strings.HasPrefix(strings.TrimLeft(option, "-"), text)
}

// codeParts are parts of option names that indicate a command or code as the value. "config",
// "require", "import", "loader" and "script" are excluded: these name files and packages of the
// project and are common (eslint --config, node --import). "filter" (pnpm --filter, git log
// --diff-filter) and "pre" (pip install --pre) are excluded as well; the programs where these are
// commands are in optionsOf.
const codeParts commaList = "command,commands,cmd,cmds,exec,execute,executable,program,programs,prog,pager,shell,hook,hooks,plugin,plugins,engine,engines," +
	"provider,providers,linker,extld,wrapper,launcher,rsh,editor,browser,viewer,opener,invoke,interpreter,preprocessor,compiler,runner,eval,askpass,toolexec"

// codeEnds are endings of such parts where two words are written as one: extcmd.
var codeEnds = []string{"command", "cmd", "exec", "program", "pager", "shell", "plugin", "wrapper", "linker", "runner"}

// codeBeginnings are abbreviations of such parts that many programs accept: --strip-prog. Shorter
// ones, and words such as page, link, wrap and edit, are separate options.
const codeBeginnings commaList = "comm,comma,comman,execu,execut,executa,executab,executabl,progr,progra,plug,plugi,shel,engi,engin,prov,provi,provid,provide," +
	"linke,wrappe,launch,launche,invok,interp,interpr,interpre,interpret,interprete,compil,compile,edito,brows,browse,viewe"

// plainOptions are options with such a part that name no code.
const plainOptions commaList = "hook-stage,hook-type,engine-strict,exec-timeout,compile,browse"

// textPrograms start nothing, and their arguments are often text about options.
const textPrograms commaList = "echo,printf,test,[,expr,grep,egrep,fgrep,ls,cat,head,tail,wc,mkdir,touch,rm,cp,mv"

// ownWords are words that the program's own reader handles.
var ownWords = map[string][]string{
	"find": {"-exec", "-execdir", "-ok", "-okdir"}, "fd": {"-exec", "--exec", "--exec-batch"}, "nix": {"--command"}, "nix-shell": {"--command"},
}

// defines are prefixes of a compiler's words that define names and name directories.
var defines = []string{"-D", "-U", "-I", "-L", "-l"}

// innerOfNames parses the options of any program whose name indicates a command or code as the
// value. Response files, which contain more options, count as well.
func innerOfNames(family string, args []string) Inner {
	var inner Inner
	if textPrograms.has(family) {
		return inner
	}
	for _, word := range args {
		if slices.Contains(ownWords[family], word) || family == "gcc" && slices.ContainsFunc(defines, func(d string) bool { return strings.HasPrefix(word, d) }) {
			continue
		}
		value, code := codeOption(word)
		if code && value != "" {
			inner.Texts = append(inner.Texts, value)
		}
		inner.Unknown = inner.Unknown || code || strings.HasPrefix(word, "@") && readsResponses.has(family) || codeInWord.MatchString(word)
	}
	return inner
}

// codeInWord matches JavaScript in an address, and a bus whose address is a command.
var codeInWord = lazyregexp.New(`(?i)data:(text|application)/(javascript|typescript|node|wasm)|\bunixexec:`)

// codeOption reports whether a word is an option whose name has one of codeParts, with the value
// in the same word. An option that begins with "no" disables something, and a number names no
// command.
func codeOption(word string) (value string, code bool) {
	text := strings.TrimLeft(word, "-")
	single := len(word)-len(text) == 1
	name, stuck := text, false
	if at := strings.IndexAny(text, "=:"); at >= 0 {
		name, value, stuck = text[:at], text[at+1:], true
	}
	switch {
	case text == word, len(name) < 2, strings.ContainsAny(name, "/, "), plainOptions.has(name), stuck && plainSetting.MatchString(strings.ToLower(value)):
		return "", false
	}
	parts := nameParts(name)
	if len(parts) == 0 || parts[0] == "no" {
		return "", false
	}
	return value, slices.ContainsFunc(parts, func(part string) bool {
		return codeParts.has(part) || !single && slices.ContainsFunc(codeEnds, func(end string) bool { return strings.HasSuffix(part, end) })
	}) || codeBeginnings.has(parts[len(parts)-1])
}

// nameParts splits the name of an option: testRunner-cmd becomes test, runner, cmd.
func nameParts(name string) []string {
	var b strings.Builder
	var last rune
	for _, c := range name {
		if unicode.IsUpper(c) && unicode.IsLower(last) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
		last = c
	}
	return strings.FieldsFunc(b.String(), func(c rune) bool { return c == '-' || c == '_' || c == '.' })
}
