package command

import (
	"path"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
)

// dialect describes how an interpreter takes code from its command line.
type dialect struct {
	// short are letters that take code, also at the end of combined flags.
	short string
	// valued are letters whose value is the rest of the word or the next one, so that letters
	// after them are not flags.
	valued string
	// stuck are letters whose optional value is the rest of the word.
	stuck string
	// spliced are letters like stuck whose value becomes part of a program: it is code unless it
	// is a plain name.
	spliced string
	// long are whole words that take code, with or without "=code".
	long []string
	// longValued are whole words that take the next word as a value.
	longValued []string
	// verbs are first arguments that take code; runners are first arguments that precede the
	// program.
	verbs, runners []string
	// first is true if the first operand is the program text itself, unless fileFlag names a
	// file.
	first    bool
	fileFlag string
	// modules are letters that take the name of a module to run from the next word.
	modules string
	// anywhere is true if flags may also follow operands.
	anywhere bool
	// plus is true if a word that begins with + is a command.
	plus bool
	// asks are letters that make the interpreter continue with standard input after the file. If
	// always is set, it continues without such a letter.
	asks   string
	always bool
}

var dialects = map[string]dialect{
	"python":     {short: "c", valued: "WXQ", modules: "m", asks: "i", longValued: []string{"--check-hash-based-pycs"}},
	"perl":       {short: "eE", valued: "I", stuck: "ixCD", spliced: "MmdF", asks: "d"},
	"ruby":       {short: "e", valued: "IrEFKxTCW0i"},
	"node":       {short: "ep", long: []string{"--eval", "--print"}, verbs: []string{"inspect", "debug"}, valued: "rC", asks: "i", longValued: []string{"--require", "--import", "--loader", "--experimental-loader", "--conditions", "--input-type", "--env-file", "--title", "--icu-data-dir"}},
	"deno":       {verbs: []string{"eval", "repl", "jupyter"}, runners: []string{"run", "serve", "test", "bench"}},
	"bun":        {short: "ep", long: []string{"--eval", "--print"}, verbs: []string{"exec", "repl"}, runners: []string{"run", "test"}, valued: "rdl"},
	"php":        {short: "rBRE", long: []string{"--run", "--process-begin", "--process-code", "--process-end"}, valued: "dczgtS", asks: "a"},
	"lua":        {short: "e", valued: "l", asks: "i"},
	"r":          {short: "e", long: []string{"--expression"}, valued: "fg"},
	"julia":      {short: "eE", long: []string{"--eval", "--print"}, valued: "LJpt", asks: "i"},
	"osascript":  {short: "e", valued: "ls", asks: "i"},
	"awk":        {short: "eW", long: []string{"--source"}, first: true, fileFlag: "f", valued: "Fv"},
	"groovy":     {short: "e", longValued: classpath},
	"scala":      {short: "e", longValued: classpath},
	"kotlin":     {short: "e", longValued: classpath},
	"ghc":        {short: "e", anywhere: true},
	"elixir":     {short: "e", long: []string{"--eval", "--rpc-eval"}, valued: "r", longValued: []string{"-pa", "-pr", "-pz"}},
	"erl":        {long: []string{"-eval", "-run", "-s"}, anywhere: true},
	"guile":      {short: "c", valued: "lLx"},
	"racket":     {short: "e", long: []string{"--eval"}, valued: "tlfSXW"},
	"sbcl":       {long: []string{"--eval"}},
	"ecl":        {long: []string{"-eval", "--eval"}, longValued: []string{"-load"}},
	"clisp":      {short: "x", valued: "iKBEMm"},
	"gforth":     {short: "e", long: []string{"--evaluate"}},
	"crystal":    {verbs: []string{"eval", "play"}, runners: []string{"run"}},
	"dart":       {runners: []string{"run"}},
	"ocaml":      {short: "e", valued: "Iw"},
	"swipl":      {short: "gt", valued: "sflxo"},
	"clojure":    {short: "e", long: []string{"--eval"}},
	"swift":      {short: "e"},
	"gjs":        {short: "c", long: []string{"--command"}},
	"npx":        {short: "c", long: []string{"--call"}},
	"java":       {longValued: append([]string{"--class-path", "--source", "--add-modules"}, classpath...)},
	"jshell":     {always: true},
	"ed":         {always: true},
	"vim":        {short: "c", long: []string{"--cmd"}, anywhere: true, plus: true, always: true},
	"emacs":      {long: []string{"--eval", "-eval", "--execute", "-execute"}, anywhere: true},
	"mshta":      {first: true},
	"sh":         {short: "c", valued: "oO", long: []string{"--command", "--init-command"}, asks: "s"},
	"cmd":        {long: []string{"/c", "/k", "/r"}},
	"powershell": {long: []string{"-c", "-command", "--command", "-e", "-ec", "-encodedcommand", "-enc", "/c", "/command", "/encodedcommand"}},
}

var classpath = []string{"-cp", "-classpath"}

// codeModules are Python modules that run code from the command line or standard input, even if a
// file is named as well.
var codeModules = []string{"timeit", "pdb", "code", "asyncio", "sqlite3", "idlelib", "ipython", "bpython", "ptpython"}

// same maps families to the family with the same command line.
var same = map[string]string{
	"pypy": "python", "ipython": "python", "irb": "ruby", "nodejs": "node", "tsx": "node", "ts-node": "node", "php-cgi": "php", "luajit": "lua", "texlua": "lua",
	"jython": "python", "micropython": "python", "jruby": "ruby", "mruby": "ruby", "raku": "perl", "perl6": "perl", "ghci": "ghc", "iex": "elixir", "octave": "julia",
	"clj": "clojure", "kotlinc": "kotlin", "d8": "node", "jsc": "node", "mujs": "node", "janet": "lua", "gnuplot": "lua",
	"rscript": "r", "gawk": "awk", "mawk": "awk", "nawk": "awk", "runghc": "ghc", "qjs": "node", "bunx": "npx", "pwsh": "powershell",
	"ash": "sh", "bash": "sh", "rbash": "sh", "dash": "sh", "zsh": "sh", "ksh": "sh", "ksh93": "sh", "mksh": "sh", "pdksh": "sh", "yash": "sh", "fish": "sh",
	"csh": "sh", "tcsh": "sh", "rc": "sh", "nu": "sh", "xonsh": "sh", "elvish": "sh", "vi": "vim", "ex": "vim", "nvim": "vim",
	"view": "vim", "rview": "vim", "rvim": "vim", "gvim": "vim", "gview": "vim", "rgvim": "vim", "rgview": "vim", "vimdiff": "vim", "gvimdiff": "vim", "evim": "vim", "eview": "vim",
	"nvi": "vim", "nex": "vim", "nview": "vim", "elvis": "vim", "vile": "vim", "vimx": "vim",
}

// dialectOf returns the dialect of an interpreter. An interpreter with unknown flags takes code
// from standard input if no file is named.
func dialectOf(basename string) (dialect, bool) {
	family := Family(basename)
	if other, ok := same[family]; ok {
		family = other
	}
	d, ok := dialects[family]
	return d, ok || slices.Contains(interpreters, family)
}

// InlineCode reports whether argv, whose first element is the program, passes code to an
// interpreter instead of a file that can be hashed: -c, -e, --eval, combined flags such as -Ic,
// /c, a data: URL, or "-" for standard input. For other programs it returns false: -c of a
// compiler is not code.
func InlineCode(basename string, argv []string) bool {
	d, ok := dialectOf(basename)
	if !ok || len(argv) == 0 {
		return false
	}
	args := argv[1:]
	named := false  // a flag named a file with the program
	unsure := false // the previous word may take this one as its value
	for i := 0; i < len(args); i++ {
		word, value := args[i], unsure
		unsure = false
		switch {
		case word == "--":
			rest := args[i+1:]
			return len(rest) > 0 && (d.first && !named || inNoFile(rest[0]))
		case d.first && named && word == "-":
			return false // input data, not a program
		case word == "-" || inNoFile(word) || d.plus && command(word):
			return true
		case d.isLong(word):
			return true
		case !strings.HasPrefix(word, "-"):
			if slices.Contains(d.verbs, strings.ToLower(word)) || d.first && !named {
				return true
			}
			if !value && !d.anywhere && !(i == 0 && slices.Contains(d.runners, word)) {
				return false
			}
			// A word after an unknown long option may be its value or a file. Code may follow a
			// value, while the words after a file are for the program. Not all long options are
			// known here, so the word counts as a value, and the search for code continues.
		case slices.Contains(d.longValued, word):
			unsure = true
		case strings.HasPrefix(word, "--"):
			unsure = !strings.Contains(word, "=")
			named = named || d.fileFlag != "" && strings.HasPrefix(word, "--file")
		default:
			f := d.letters(word[1:])
			switch {
			case f.code:
				return true
			case f.module:
				return slices.Contains(codeModules, moduleOf(f.value, args[i+1:]))
			}
			if d.fileFlag != "" && strings.HasPrefix(word[1:], d.fileFlag) {
				named, f.skip, f.value = true, len(word) == 2, word[2:]
				if f.skip && i+1 < len(args) {
					f.value = args[i+1]
				}
				if f.value == "-" {
					return true
				}
			}
			if f.skip {
				i++
				if i < len(args) && inNoFile(args[i]) {
					return true
				}
			}
		}
	}
	return false
}

// moduleOf returns the first part of a module's name, which is the rest of the flag's word or the
// next word.
func moduleOf(stuck string, rest []string) string {
	if stuck == "" && len(rest) > 0 {
		stuck = rest[0]
	}
	name, _, _ := strings.Cut(stuck, ".")
	return strings.ToLower(name)
}

// notFiles match words, or values of flags in them, that name standard input or contain the code
// themselves.
var notFiles = lazyregexp.New(`(?i)(^|[/=])dev/(stdin$|fd/)|(^|[/=])proc/.*/fd/|(^|=)data:|php://(stdin|input|fd)|^--[^=]*=-$`)

// inNoFile reports whether a word names a program that is not in a file.
func inNoFile(word string) bool {
	clean := path.Clean(strings.ReplaceAll(word, `\`, "/"))
	return notFiles.MatchString(word) || notFiles.MatchString(clean)
}

// command reports whether a word is a command of an editor, not a line number or a search
// pattern: +:q, but not +12 or +/text.
func command(word string) bool {
	rest, ok := strings.CutPrefix(word, "+")
	return ok && rest != "" && rest[0] != '/' && strings.Trim(rest, "0123456789") != ""
}

// isLong reports whether a word is a flag that takes code. An ambiguous abbreviation of such a
// flag counts as well.
func (d dialect) isLong(word string) bool {
	word = strings.ToLower(word)
	name, _, _ := strings.Cut(word, "=")
	return slices.ContainsFunc(d.long, func(flag string) bool {
		return word == flag || strings.HasPrefix(word, flag+"=") || strings.HasPrefix(word, flag+":") ||
			flag[0] == '/' && strings.HasPrefix(word, flag) ||
			d.first && len(name) > len("--") && strings.HasPrefix(flag, name)
	})
}

// flags is the result of parsing a word of combined short flags.
type flags struct {
	code, module bool
	// skip reports that the next word is the value of the last letter. value is a module's value
	// in the same word.
	skip  bool
	value string
}

// letters parses combined short flags.
func (d dialect) letters(word string) flags {
	for i := range len(word) {
		c, rest := string(word[i]), word[i+1:]
		switch {
		case strings.Contains(d.short, c):
			return flags{code: true}
		case strings.Contains(d.modules, c):
			return flags{module: true, value: rest}
		case strings.Contains(d.valued, c):
			return flags{skip: rest == "", code: inNoFile(rest)}
		case strings.Contains(d.spliced, c):
			return flags{code: !plainName.MatchString(rest)}
		case strings.Contains(d.stuck, c):
			return flags{}
		}
	}
	return flags{}
}

// plainName matches values that can only be the name of a module, whose imports perl quotes, or a
// character that splits lines.
var plainName = lazyregexp.New(`^[-:t]*[A-Za-z0-9_:]*(=.*)?$|^[,.;|+]$`)

// ReadsCodeFromStdin reports whether an interpreter with this command line reads its program from
// standard input: it has no file, no module and no inline code, or a flag to continue there. If
// input is given, that is inline code as well.
func ReadsCodeFromStdin(basename string, argv []string) bool {
	d, ok := dialectOf(basename)
	if !ok || d.first || len(argv) == 0 || InlineCode(basename, argv) {
		return false
	}
	if d.always {
		return true
	}
	for i := 1; i < len(argv); i++ {
		word := argv[i]
		if word == "--" {
			return i+1 == len(argv)
		}
		if !strings.HasPrefix(word, "-") {
			return false
		}
		if strings.HasPrefix(word, "--") {
			switch {
			case word == "--version" || word == "--help":
				return false
			case d.asks != "" && word == "--interactive":
				return true
			}
		}
		if slices.Contains(d.longValued, word) {
			i++
			continue
		}
		if strings.HasPrefix(word, "--") {
			continue
		}
		if d.goesOn(word[1:]) {
			return true
		}
		f := d.letters(word[1:])
		if f.module {
			return false
		}
		if f.skip {
			i++
		}
	}
	return true
}

// goesOn reports whether one of combined short flags makes the interpreter read standard input
// after the file.
func (d dialect) goesOn(word string) bool {
	for i := range len(word) {
		switch c := string(word[i]); {
		case strings.Contains(d.asks, c):
			return true
		case strings.Contains(d.valued+d.stuck+d.spliced+d.modules+d.short, c):
			return false
		}
	}
	return false
}
