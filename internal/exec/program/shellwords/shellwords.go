// Package shellwords parses a text in a shell's language. It returns every command of its
// pipelines, lists, subshells and substitutions, its redirects, and other effects that a list of
// commands does not show. It runs and expands nothing. A word is literal only if the shell passes
// on exactly those bytes, regardless of its environment, files and options; every other word is
// unknown before the shell runs.
//
// The machine determines which shell is called sh, so a word is literal only if dash, bash and bash
// as sh agree about it. {a,b}, a=~, $'x' and 10>x are not literal. A fuzz test compares the other
// words with the shells of the machine.
package shellwords

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Dialect is the language of a text.
type Dialect string

// The dialects.
const (
	// Posix is the language of dash and other small shells, and the minimum that a program named
	// sh supports.
	Posix Dialect = "posix"
	Bash  Dialect = "bash"
)

// Dialects lists all dialects.
var Dialects = []Dialect{Posix, Bash}

// Limits of a text. A text beyond them is refused, not parsed in part.
const (
	// MaxText is in bytes.
	MaxText = 64 << 10
	// MaxCommands limits the commands and MaxWords their words.
	MaxCommands = 2000
	MaxWords    = 20000
	// maxNodes limits the visited nodes, maxDepth the nesting of brackets, and maxOpened their
	// number.
	maxNodes  = 200000
	maxDepth  = 200
	maxOpened = 8000
)

// Word is a word of a command, or the target of a redirect. Its value is known only if it is
// literal.
type Word struct {
	text    string
	literal bool
}

// Literal returns the word as the shell passes it on, and whether it is known. It is unknown if
// the word has an expansion, or could have one in some shell of its dialect: a parameter, a
// substitution, a pattern, a brace, a tilde, $'...'.
func (w Word) Literal() (string, bool) {
	if !w.literal {
		return "", false
	}
	return w.text, true
}

// MarshalJSON encodes a literal word as {"literal": "x"}, and any other as {"source": "$X"} with
// its source text.
func (w Word) MarshalJSON() ([]byte, error) {
	if w.literal {
		return json.Marshal(map[string]string{"literal": w.text})
	}
	return json.Marshal(map[string]string{"source": w.text})
}

// Literal returns a literal word.
func Literal(text string) Word { return Word{text: text, literal: true} }

// Command is one simple command.
type Command struct {
	// Words are the name and the arguments, without assignments and redirects. It is never empty.
	Words []Word `json:"words"`
	// Declares is true for export, declare and similar builtins of bash, whose variables are
	// among the Settings of the script.
	Declares bool `json:"-"`
}

// Argv returns the words up to the first that is not literal, and whether these are all words.
func (c Command) Argv() (words []string, all bool) {
	for _, w := range c.Words {
		text, literal := w.Literal()
		if !literal {
			return words, false
		}
		words = append(words, text)
	}
	return words, true
}

// Redirect is a file that a redirect opens. Redirects that copy or close a descriptor are
// excluded, and so are here-documents.
type Redirect struct {
	Target Word `json:"target"`
	// Writes is true if the file may be created, truncated or appended to.
	Writes bool `json:"writes"`
}

// Setting assigns a value to a variable.
type Setting struct {
	// Name is "" if it is unknown.
	Name  string
	Value Word
}

// Feature is an effect of a text other than running commands.
type Feature string

// The features.
const (
	// Assignment assigns a value to a variable: A=b, for A in b, {A}>file.
	Assignment Feature = "assignment"
	// Arithmetic is an evaluation that may run commands and assign variables.
	Arithmetic Feature = "arithmetic"
	Coprocess  Feature = "coprocess"
	// Function is a function definition, which gives a name another meaning.
	Function Feature = "function"
	// Other is a construct unknown to this package.
	Other Feature = "other"
)

// Features lists all features.
var Features = []Feature{Arithmetic, Assignment, Coprocess, Function, Other}

// Script is the content of a text.
type Script struct {
	Dialect Dialect `json:"dialect"`
	// Commands are in the order of the text; commands of a substitution follow the command that
	// contains it. A text may run each of them once, repeatedly or not at all.
	Commands  []Command  `json:"commands"`
	Redirects []Redirect `json:"redirects"`
	// Features are sorted and unique.
	Features []Feature `json:"features"`
	// Dynamic is true if a part of the text is unknown before it runs: a word that is not
	// literal, or an expansion in a here-document.
	Dynamic bool `json:"dynamic"`
	// Settings are the variables that the text assigns, except in arithmetic, in the order of the
	// text. They are excluded from its digest, because Form contains them.
	Settings []Setting `json:"-"`
	// Documents are the texts of here-documents. Pipes is true if the output of one command goes
	// to another. Both are excluded from the digest as well.
	Documents []string `json:"-"`
	Pipes     bool     `json:"-"`
	// Form is a canonical form of the text, without differences in spaces, line breaks and
	// comments. Only Form contains the way in which commands are joined.
	Form string `json:"form"`
}

// ErrTooLarge reports that a text exceeds the limits.
var ErrTooLarge = errors.New("the text is too long, too deeply nested, or has too many commands")

// Parse parses a text. Its error explains which part cannot be parsed. A text that shells of the
// dialect parse differently is an error as well.
func Parse(dialect Dialect, text string) (Script, error) {
	variant, ok := map[Dialect]syntax.LangVariant{Posix: syntax.LangPOSIX, Bash: syntax.LangBash}[dialect]
	switch {
	case !ok:
		return Script{}, fmt.Errorf("the dialect %q is not supported", dialect)
	case len(text) > MaxText || tooDeep(text):
		return Script{}, ErrTooLarge
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unreadable):
		return Script{}, errors.New("the text has a carriage return, another control character, or is not UTF-8")
	}
	file, form, err := parse(variant, text)
	if err != nil {
		return Script{}, err
	}
	r := reader{
		script: Script{Dialect: dialect, Commands: []Command{}, Redirects: []Redirect{}, Features: []Feature{}, Form: form},
		text:   text, documents: map[*syntax.Word]bool{},
	}
	syntax.Walk(file, r.visit)
	if r.err != nil {
		return Script{}, r.err
	}
	slices.Sort(r.script.Features)
	r.script.Features = slices.Compact(r.script.Features)
	return r.script, nil
}

// unreadable reports whether shells treat a character differently or drop it.
func unreadable(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// parse treats a panic of the parser as an unparseable text.
func parse(variant syntax.LangVariant, text string) (file *syntax.File, form string, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, errors.New("the text cannot be parsed")
		}
	}()
	if file, err = syntax.NewParser(syntax.Variant(variant)).Parse(strings.NewReader(text), ""); err != nil {
		return nil, "", err
	}
	var printed strings.Builder
	err = syntax.NewPrinter(syntax.Minify(true)).Print(&printed, file)
	return file, printed.String(), err
}

// tooDeep reports whether parsing a text could require deep recursion. It ignores quotes and
// comments. A closing bracket may be a quoted one, so the number of brackets and reserved words
// that open a construct is limited as well.
func tooDeep(text string) bool {
	depth, opened, word := 0, 0, 0
	for i := range len(text) {
		c := text[i]
		if 'a' <= c && c <= 'z' {
			continue
		}
		if slices.Contains(openers, text[word:i]) {
			opened++
		}
		word = i + 1
		switch c {
		case '(', '{', '[', '`':
			depth++
			opened++
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
		if depth > maxDepth || opened > maxOpened {
			return true
		}
	}
	return false
}

// openers are reserved words that a command may follow.
var openers = []string{"if", "elif", "while", "until", "for", "select", "case", "function", "time", "coproc"}
