package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// tokenKind is the kind of a token of Cedar's policy language.
type tokenKind int

// The kinds of tokens.
const (
	TokIdent tokenKind = iota
	TokString
	tokInt
	tokPunct
)

// Token is one token with its position. cedar-go reports positions of whole policies only, so
// findings are located by these tokens.
type Token struct {
	Kind tokenKind
	Text string
	// Offset is in bytes from 0; line and column count from 1, columns in
	// characters.
	Offset, line, column int
}

// End returns the offset after the token, in bytes.
func (t Token) End() int { return t.Offset + len(t.Text) }

// Unquoted returns the text of a string literal without its quotes. Escapes are not decoded:
// they do not occur in the names that are searched.
func (t Token) Unquoted() string {
	if t.Kind != TokString || len(t.Text) < 2 {
		return t.Text
	}
	return t.Text[1 : len(t.Text)-1]
}

// lexError is a position at which the text does not form a token.
type lexError struct {
	line, column int
	message      string
}

// lexer splits a policy text into tokens. It accepts slightly more than cedar-go does; cedar-go
// then reports the error.
type lexer struct {
	text         string
	at           int
	line, column int
	tokens       []Token
	errors       []lexError
}

// byteOrderMark is written by some editors at the start of a file.
const byteOrderMark = "\ufeff"

// Tokenize splits a policy text into tokens and returns the errors.
func Tokenize(text string) ([]Token, []lexError) {
	l := &lexer{text: text, line: 1, column: 1}
	if strings.HasPrefix(text, byteOrderMark) {
		l.at = len(byteOrderMark)
	}
	for l.at < len(l.text) {
		l.next()
	}
	return l.tokens, l.errors
}

func (l *lexer) next() {
	rest := l.text[l.at:]
	c := rest[0]
	switch {
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		l.advance(1)
	case strings.HasPrefix(rest, "//"):
		l.advance(lineLength(rest))
	case strings.HasPrefix(rest, "/*"):
		l.comment(rest)
	case c == '"':
		l.emit(TokString, l.stringLength(rest))
	case identByte(c, true):
		l.emit(TokIdent, span(rest, func(b byte) bool { return identByte(b, false) }))
	case c >= '0' && c <= '9':
		l.emit(tokInt, span(rest, func(b byte) bool { return b >= '0' && b <= '9' }))
	default:
		l.punct(rest)
	}
}

func (l *lexer) comment(rest string) {
	end := strings.Index(rest[2:], "*/")
	if end < 0 {
		l.fail("the comment does not end")
		l.advance(len(rest))
		return
	}
	l.advance(end + 4)
}

func (l *lexer) stringLength(rest string) int {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		case '\n':
			l.fail("the string does not end on its line")
			return i
		}
	}
	l.fail("the string does not end")
	return len(rest)
}

var punctuation = []string{"::", "==", "!=", "<=", ">=", "&&", "||"}

func (l *lexer) punct(rest string) {
	for _, p := range punctuation {
		if strings.HasPrefix(rest, p) {
			l.emit(tokPunct, len(p))
			return
		}
	}
	if strings.IndexByte("@.,;(){}[]+-*!<>:", rest[0]) >= 0 {
		l.emit(tokPunct, 1)
		return
	}
	r, size := utf8.DecodeRuneInString(rest)
	switch name := span(rest[size:], func(b byte) bool { return identByte(b, false) }); {
	case r == utf8.RuneError && size == 1:
		l.fail("invalid UTF-8")
	case r == '?' && name > 0:
		l.fail(fmt.Sprintf("Cedar templates are not supported: name a principal or a resource instead of %s", rest[:size+name]))
		size += name
	default:
		l.fail(fmt.Sprintf("unexpected character %q", r))
	}
	l.advance(size)
}

func (l *lexer) emit(kind tokenKind, length int) {
	l.tokens = append(l.tokens, Token{
		Kind: kind, Text: l.text[l.at : l.at+length], Offset: l.at, line: l.line, column: l.column,
	})
	l.advance(length)
}

func (l *lexer) fail(message string) {
	l.errors = append(l.errors, lexError{line: l.line, column: l.column, message: message})
}

func (l *lexer) advance(n int) {
	for _, r := range l.text[l.at : l.at+n] {
		if r == '\n' {
			l.line++
			l.column = 1
		} else {
			l.column++
		}
	}
	l.at += n
}

func lineLength(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

func span(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

func identByte(b byte, first bool) bool {
	switch {
	case b == '_', b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z':
		return true
	default:
		return !first && b >= '0' && b <= '9'
	}
}

// nesting is 1 for an opening bracket, -1 for a closing one, else 0.
func nesting(t Token) int {
	if t.Kind != tokPunct {
		return 0
	}
	switch t.Text {
	case "(", "{", "[":
		return 1
	case ")", "}", "]":
		return -1
	}
	return 0
}
