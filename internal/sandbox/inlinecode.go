package sandbox

import (
	"slices"
	"strings"
)

// dialect says how an interpreter takes code from its command line.
type dialect struct {
	// short are letters that take code, also at the end of combined flags.
	short string
	// valued are letters whose value is the rest of the word or the next
	// one, so that letters behind them are no flags.
	valued string
	// stuck are letters whose value, if any, is the rest of the word.
	stuck string
	// long are whole words that take code, with or without "=code".
	long []string
	// longValued are whole words after which the next word is a value.
	longValued []string
	// verbs are first arguments that take code.
	verbs []string
	// first is true when the first operand is the program text itself,
	// unless fileFlag names a file.
	first    bool
	fileFlag string
	// modules are letters after which the next word names a module to run.
	modules string
}

var dialects = map[string]dialect{
	"python":     {short: "c", valued: "WXQ", modules: "m", longValued: []string{"--check-hash-based-pycs"}},
	"perl":       {short: "eE", valued: "I", stuck: "iFxCDdMm"},
	"ruby":       {short: "e", valued: "IrEFKxTCW0i"},
	"node":       {short: "ep", long: []string{"--eval", "--print"}, valued: "rC", longValued: []string{"--require", "--import", "--loader", "--experimental-loader", "--conditions", "--input-type", "--env-file", "--title", "--icu-data-dir"}},
	"deno":       {verbs: []string{"eval", "repl"}},
	"bun":        {short: "ep", long: []string{"--eval", "--print"}},
	"php":        {short: "rBRE", long: []string{"--run", "--process-begin", "--process-code", "--process-end"}, valued: "dczgt"},
	"lua":        {short: "e", valued: "l"},
	"r":          {short: "e", long: []string{"--expression"}},
	"julia":      {short: "eE", long: []string{"--eval", "--print"}, valued: "LJpt"},
	"osascript":  {short: "e", valued: "ls"},
	"awk":        {short: "e", long: []string{"--source"}, first: true, fileFlag: "f", valued: "Fv"},
	"groovy":     {short: "e"},
	"scala":      {short: "e"},
	"ghc":        {short: "e"},
	"elixir":     {short: "e", long: []string{"--eval", "--rpc-eval"}},
	"erl":        {long: []string{"-eval", "-run", "-s"}},
	"guile":      {short: "c"},
	"racket":     {short: "e", long: []string{"--eval"}},
	"sbcl":       {long: []string{"--eval"}},
	"clisp":      {short: "x"},
	"ocaml":      {short: "e"},
	"swipl":      {short: "gt"},
	"clojure":    {short: "e", long: []string{"--eval"}},
	"swift":      {short: "e"},
	"gjs":        {short: "c", long: []string{"--command"}},
	"npx":        {short: "c", long: []string{"--call"}},
	"vim":        {short: "c", long: []string{"--cmd"}},
	"emacs":      {long: []string{"--eval", "-eval", "--execute", "-execute"}},
	"sh":         {short: "c", valued: "oO", long: []string{"--command", "--init-command"}},
	"cmd":        {long: []string{"/c", "/k", "/r"}},
	"powershell": {long: []string{"-c", "-command", "--command", "-e", "-ec", "-encodedcommand", "-enc", "/c", "/command", "/encodedcommand"}},
}

// same maps families to the one that shares their command line.
var same = map[string]string{
	"pypy": "python", "ipython": "python", "irb": "ruby", "nodejs": "node", "tsx": "node", "ts-node": "node", "php-cgi": "php", "luajit": "lua", "texlua": "lua",
	"jython": "python", "micropython": "python", "jruby": "ruby", "mruby": "ruby", "raku": "perl", "perl6": "perl", "ghci": "ghc", "iex": "elixir", "octave": "julia",
	"clj": "clojure", "d8": "node", "jsc": "node", "mujs": "node", "janet": "lua", "gnuplot": "lua",
	"rscript": "r", "gawk": "awk", "mawk": "awk", "nawk": "awk", "runghc": "ghc", "qjs": "node", "bunx": "npx", "pwsh": "powershell",
	"ash": "sh", "bash": "sh", "rbash": "sh", "dash": "sh", "zsh": "sh", "ksh": "sh", "ksh93": "sh", "mksh": "sh", "pdksh": "sh", "yash": "sh", "fish": "sh",
	"csh": "sh", "tcsh": "sh", "rc": "sh", "nu": "sh", "xonsh": "sh", "elvish": "sh", "vi": "vim", "ex": "vim", "nvim": "vim",
}

func dialectOf(basename string) (dialect, bool) {
	family := Family(basename)
	if other, ok := same[family]; ok {
		family = other
	}
	d, ok := dialects[family]
	return d, ok
}

// InlineCode reports whether argv, whose first element is the program, hands
// an interpreter code instead of a file that can be hashed: -c, -e, --eval,
// combined flags such as -Ic, /c, or "-" for standard input. For programs that
// are no interpreters it is false: -c of a compiler is not code.
func InlineCode(basename string, argv []string) bool {
	d, ok := dialectOf(basename)
	if !ok || len(argv) == 0 {
		return false
	}
	args := argv[1:]
	named := false  // a file with the program was named by a flag
	unsure := false // the word before may take this one as its value
	for i := 0; i < len(args); i++ {
		word, value := args[i], unsure
		unsure = false
		switch {
		case word == "--":
			return d.first && !named && i+1 < len(args)
		case word == "-" || word == "/dev/stdin" || strings.HasPrefix(word, "/dev/fd/") || strings.HasPrefix(word, "/proc/self/fd/"):
			return true
		case d.isLong(word):
			return true
		case !strings.HasPrefix(word, "-"):
			if slices.Contains(d.verbs, strings.ToLower(word)) || d.first && !named {
				return true
			}
			if !value {
				return false
			}
			// A word after an unknown long option may be its value or a file.
			// After a value, code may follow; what follows a file is for the
			// program. Not all long options are known here, so the word counts
			// as a value, and the search for code goes on.
		case strings.HasPrefix(word, "--"):
			unsure = !strings.Contains(word, "=")
			named = named || d.fileFlag != "" && strings.HasPrefix(word, "--file")
		default:
			code, module, skip := d.letters(word[1:])
			if code {
				return true
			}
			if module {
				return false
			}
			if d.fileFlag != "" && strings.HasPrefix(word[1:], d.fileFlag) {
				named, skip = true, len(word) == 2
			}
			if skip {
				i++
			}
		}
	}
	return false
}

func (d dialect) isLong(word string) bool {
	word = strings.ToLower(word)
	return slices.ContainsFunc(d.long, func(flag string) bool {
		return word == flag || strings.HasPrefix(word, flag+"=") || strings.HasPrefix(word, flag+":") ||
			flag[0] == '/' && strings.HasPrefix(word, flag)
	})
}

// letters walks combined short flags. skip says that the next word is the
// value of the last letter.
func (d dialect) letters(flags string) (code, module, skip bool) {
	for i := range len(flags) {
		c := string(flags[i])
		switch {
		case strings.Contains(d.short, c):
			return true, false, false
		case d.modules != "" && strings.Contains(d.modules, c):
			return false, true, false
		case strings.Contains(d.valued, c):
			return false, false, i == len(flags)-1
		case strings.Contains(d.stuck, c):
			return false, false, false
		}
	}
	return false, false, false
}

// ReadsCodeFromStdin reports whether an interpreter called like this takes its
// program from standard input: no file, no module, no inline code. With input
// given, that is inline code too.
func ReadsCodeFromStdin(basename string, argv []string) bool {
	d, ok := dialectOf(basename)
	if !ok || d.first || len(argv) == 0 || InlineCode(basename, argv) {
		return false
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
			if word == "--version" || word == "--help" {
				return false
			}
			if slices.Contains(d.longValued, word) {
				i++
			}
			continue
		}
		_, module, skip := d.letters(word[1:])
		if module {
			return false
		}
		if skip {
			i++
		}
	}
	return true
}
