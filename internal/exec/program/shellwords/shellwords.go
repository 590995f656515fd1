// Package shellwords reads a text in a shell's language: every command of its
// pipelines, lists, subshells and substitutions, where it redirects to, and what
// else it does that no list of commands shows. It runs and expands nothing. A word is
// literal only where the shell passes on exactly those bytes, whatever its
// environment, its files and its options are; every other word is not known before
// the shell runs.
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

// Dialect is the language that a text is in.
type Dialect string

// The dialects.
const (
	// Posix is what dash and other small shells read, and what a program that is
	// called sh reads at least.
	Posix Dialect = "posix"
	Bash  Dialect = "bash"
)

// Dialects lists all dialects.
var Dialects = []Dialect{Posix, Bash}

// Bounds of what is read. A text beyond them is refused, not read in part.
const (
	// MaxText is in bytes.
	MaxText = 64 << 10
	// MaxCommands bounds the commands and MaxWords their words.
	MaxCommands = 2000
	MaxWords    = 20000
	// maxNodes bounds what is looked at, maxDepth how many brackets stand in each
	// other, and maxOpened how many there are.
	maxNodes  = 200000
	maxDepth  = 200
	maxOpened = 8000
)

// Word is a word of a command, or the target of a redirect. What it says is known
// only where it is literal.
type Word struct {
	text    string
	literal bool
}

// Literal returns the word as the shell passes it on, and whether that is known. It
// is not where the word has an expansion, or could have one in some shell of its
// dialect: a parameter, a substitution, a pattern, a brace, a tilde, $'...'.
func (w Word) Literal() (string, bool) {
	if !w.literal {
		return "", false
	}
	return w.text, true
}

// MarshalJSON writes what is known of the word: {"literal": "x"}, or {"source":
// "$X"} with the text as it stands there.
func (w Word) MarshalJSON() ([]byte, error) {
	if w.literal {
		return json.Marshal(map[string]string{"literal": w.text})
	}
	return json.Marshal(map[string]string{"source": w.text})
}

// Literal is a word that is known.
func Literal(text string) Word { return Word{text: text, literal: true} }

// Command is one simple command.
type Command struct {
	// Words are the name and the arguments, without assignments and redirects. There
	// is at least one.
	Words []Word `json:"words"`
	// Declares is true for export, declare and the like of bash, whose variables are
	// among the Settings of the script.
	Declares bool `json:"-"`
}

// Argv returns the words up to the first that is not literal, and whether these are
// all.
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

// Redirect is a file that a redirect opens. One that copies or closes a descriptor
// is none, and neither is a here-document.
type Redirect struct {
	Target Word `json:"target"`
	// Writes is true where the file may be made, emptied or appended to.
	Writes bool `json:"writes"`
}

// Setting gives a variable a value.
type Setting struct {
	// Name is "" where it is not known.
	Name  string
	Value Word
}

// Feature is something that a text does beside running commands.
type Feature string

// The features.
const (
	// Assignment gives a variable a value: A=b, for A in b, {A}>file.
	Assignment Feature = "assignment"
	// Arithmetic is evaluated, and may run commands and assign while it is.
	Arithmetic Feature = "arithmetic"
	Coprocess  Feature = "coprocess"
	// Function definitions make a name mean something else.
	Function Feature = "function"
	// Other is what this package does not know.
	Other Feature = "other"
)

// Features lists all features.
var Features = []Feature{Arithmetic, Assignment, Coprocess, Function, Other}

// Script is what a text says.
type Script struct {
	Dialect Dialect `json:"dialect"`
	// Commands are in the order of the text, those of a substitution after the
	// command that it stands in. A text may run each of them once, often or not at
	// all.
	Commands  []Command  `json:"commands"`
	Redirects []Redirect `json:"redirects"`
	// Features are sorted and without repeats.
	Features []Feature `json:"features"`
	// Dynamic is true where something in the text is not known before it runs: a
	// word that is not literal, or an expansion in a here-document.
	Dynamic bool `json:"dynamic"`
	// Settings are the variables that the text gives values to, without those of
	// arithmetic, in the order of the text. They are no part of its digest, since
	// Form has them.
	Settings []Setting `json:"-"`
	// Documents are the texts of here-documents, and Pipes is true where the output of one
	// command goes to another. They are no part of the digest either.
	Documents []string `json:"-"`
	Pipes     bool     `json:"-"`
	// Form is the text in one form for all that differ in spaces, line breaks and
	// comments alone. How commands are joined is there, and nowhere else.
	Form string `json:"form"`
}

// ErrTooLarge says that a text is beyond the bounds.
var ErrTooLarge = errors.New("the text is too long, too deeply nested, or has too many commands")

// Parse reads a text. The error says in plain words where it cannot be read; a text
// that one shell of the dialect reads in another way than the next one is such a
// text, too.
func Parse(dialect Dialect, text string) (Script, error) {
	variant, ok := map[Dialect]syntax.LangVariant{Posix: syntax.LangPOSIX, Bash: syntax.LangBash}[dialect]
	switch {
	case !ok:
		return Script{}, fmt.Errorf("there is no dialect %q", dialect)
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

// unreadable are characters that shells disagree on, or drop.
func unreadable(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// parse takes a panic of the parser for a text that it cannot read.
func parse(variant syntax.LangVariant, text string) (file *syntax.File, form string, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, errors.New("the text cannot be read")
		}
	}()
	if file, err = syntax.NewParser(syntax.Variant(variant)).Parse(strings.NewReader(text), ""); err != nil {
		return nil, "", err
	}
	var printed strings.Builder
	err = syntax.NewPrinter(syntax.Minify(true)).Print(&printed, file)
	return file, printed.String(), err
}

// tooDeep reports whether reading a text could take a deep recursion. It looks at
// neither quotes nor comments: a closing bracket may be a quoted one, so that the
// brackets and reserved words that open something are bounded, too.
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

// openers are reserved words behind which a command stands.
var openers = []string{"if", "elif", "while", "until", "for", "select", "case", "function", "time", "coproc"}
