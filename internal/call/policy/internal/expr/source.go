package expr

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"

	"palyra/internal/call/policy/finding"
	"palyra/internal/core/lazyregexp"
)

// Limits on policy text. They keep a hostile or broken file from exhausting
// the stack of cedar-go's recursive parser, typechecker and evaluator.
const (
	maxSourceSize   = 4 << 20
	maxPolicyTokens = 20_000
	maxNesting      = 100
)

// Source is one source, split into lines for findings.
type Source struct {
	Name  string
	Text  string
	lines []string
}

// NewSourceText splits the text of a file into lines.
func NewSourceText(name, text string) *Source {
	return &Source{Name: name, Text: text, lines: strings.Split(text, "\n")}
}

func (s *Source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// Finding creates a finding at a position in s.
func (s *Source) Finding(sev finding.Severity, code string, line, column int, format string, args ...any) finding.Finding {
	return finding.Finding{
		Severity: sev, Code: code, File: s.Name, Line: line, Column: column,
		Message: fmt.Sprintf(format, args...), SourceLine: s.line(line),
	}
}

// At creates a finding at one of the policy's tokens.
func (c *Policy) At(t Token, sev finding.Severity, code, format string, args ...any) finding.Finding {
	f := c.Source.Finding(sev, code, t.line, t.column, format, args...)
	f.PolicyID = c.ID
	return f
}

// Start creates a finding at the policy's effect keyword.
func (c *Policy) Start(sev finding.Severity, code, format string, args ...any) finding.Finding {
	return c.At(c.Head, sev, code, format, args...)
}

// Parse splits a source into policies and parses each separately, so that one broken policy
// does not hide the mistakes of the next.
func Parse(name, text string, builtin bool) (policies []*Policy, findings []finding.Finding) {
	s := NewSourceText(name, text)
	if len(text) > maxSourceSize {
		return nil, []finding.Finding{{Severity: finding.SeverityError, Code: finding.CodeTooLarge, File: name, Line: 1, Column: 1,
			Message: fmt.Sprintf("the file has %d bytes; the limit is %d", len(text), maxSourceSize)}}
	}
	tokens, lexErrors := Tokenize(text)
	for _, e := range lexErrors {
		findings = append(findings, s.Finding(finding.SeverityError, finding.CodeSyntax, e.line, e.column, "%s", e.message))
	}
	if len(lexErrors) > 0 {
		return nil, findings
	}
	for n, chunk := range splitPolicies(tokens) {
		p, f := parsePolicy(s, chunk, fmt.Sprintf("%s#%d", path.Base(name), n+1))
		findings = append(findings, f...)
		if p != nil {
			p.Builtin = builtin
			policies = append(policies, p)
		}
	}
	return policies, findings
}

// splitPolicies cuts tokens after each ';'. Cedar has no other use for it.
func splitPolicies(tokens []Token) [][]Token {
	var chunks [][]Token
	start := 0
	for i, t := range tokens {
		if t.Kind == tokPunct && t.Text == ";" {
			chunks = append(chunks, tokens[start:i+1])
			start = i + 1
		}
	}
	if start < len(tokens) {
		chunks = append(chunks, tokens[start:])
	}
	return chunks
}

func parsePolicy(s *Source, tokens []Token, fallbackID string) (*Policy, []finding.Finding) {
	if f, ok := tooComplex(s, tokens); ok {
		return nil, []finding.Finding{f}
	}
	first, last := tokens[0], tokens[len(tokens)-1]
	text := s.Text[first.Offset:last.End()]
	var policy cedar.Policy
	if err := policy.UnmarshalCedar([]byte(text)); err != nil {
		return nil, []finding.Finding{syntaxFinding(s, tokens, err)}
	}
	policy.SetFilename(s.Name)
	c := &Policy{
		ID: fallbackID, Source: s, Tokens: tokens, Text: text, Line: first.line, Offset: first.Offset,
		Cedar: &policy, AST: astOf(&policy),
	}
	c.Head = c.Find(EffectWord(c.Permits()))
	findings := c.readAnnotations()
	c.Conditions()
	return c, findings
}

// Find returns the first token after the annotations with that text, as a word or as a string.
func (c *Policy) Find(name string) Token {
	started := false
	for _, t := range c.Tokens {
		started = started || t.Text == "permit" || t.Text == "forbid"
		if started && (t.Kind == TokIdent && t.Text == name || t.Kind == TokString && t.Unquoted() == name) {
			return t
		}
	}
	return c.Head
}

// EffectWord is "permit" or "forbid".
func EffectWord(permit bool) string {
	if permit {
		return "permit"
	}
	return "forbid"
}

func tooComplex(s *Source, tokens []Token) (finding.Finding, bool) {
	if len(tokens) > maxPolicyTokens {
		t := tokens[0]
		return s.Finding(finding.SeverityError, finding.CodeTooLarge, t.line, t.column,
			"the policy has %d tokens; the limit is %d", len(tokens), maxPolicyTokens), true
	}
	depth, run := 0, 0
	for _, t := range tokens {
		switch t.Text {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		}
		if t.Text == "!" || t.Text == "-" || t.Text == "if" || t.Text == "else" {
			run++
		}
		if depth > maxNesting || run > 10*maxNesting {
			return s.Finding(finding.SeverityError, finding.CodeTooLarge, t.line, t.column,
				"the policy is nested deeper than %d levels", maxNesting), true
		}
	}
	return finding.Finding{}, false
}

var parsePlace = lazyregexp.New(`at <input>:(\d+):(\d+)(?: "(?:[^"\\]|\\.)*")?: (.*)$`)

var policyWords = []string{"permit", "forbid", "principal", "action", "resource", "when", "unless", "context"}

// syntaxFinding locates a parse error. cedar-go names the token after the rejected one, unless
// it only looked ahead; the text of the message distinguishes the cases.
func syntaxFinding(s *Source, tokens []Token, err error) finding.Finding {
	message := strings.TrimPrefix(err.Error(), "parser error: ")
	m := parsePlace.FindStringSubmatch(message)
	if m == nil {
		t := tokens[0]
		return s.Finding(finding.SeverityError, finding.CodeSyntax, t.line, t.column, "%s", message)
	}
	detail := m[3]
	i := tokenAt(tokens, m[1], m[2])
	if i == len(tokens) && endedEarly(detail) {
		t := tokens[len(tokens)-1]
		return s.Finding(finding.SeverityError, finding.CodeSyntax, t.line, t.column+len(t.Text),
			"the policy ends early: %s", syntaxText(detail))
	}
	t := tokens[max(i-1, 0)]
	if looksAhead(detail) && i < len(tokens) {
		t = tokens[i]
	}
	f := s.Finding(finding.SeverityError, finding.CodeSyntax, t.line, t.column, "unexpected %q: %s", t.Text, syntaxText(detail))
	if t.Kind == TokIdent {
		f.Help = finding.DidYouMean(t.Text, policyWords)
	}
	return f
}

// tokenAt finds a token by its position within its policy's text.
func tokenAt(tokens []Token, line, column string) int {
	l, _ := strconv.Atoi(line)
	c, _ := strconv.Atoi(column)
	first := tokens[0]
	if l == 1 {
		c += first.column - 1
	}
	l += first.line - 1
	for i, t := range tokens {
		if t.line == l && t.column == c {
			return i
		}
	}
	return len(tokens)
}

func endedEarly(detail string) bool {
	return strings.HasPrefix(detail, "exact got  want ") || strings.HasPrefix(detail, "invalid primary")
}

// looksAhead reports whether cedar-go writes the message before it consumes the token.
func looksAhead(detail string) bool { return strings.HasPrefix(detail, "got ") }

var exactMessage = lazyregexp.New(`^(?:exact )?got .*? want (.+)$`)

func syntaxText(detail string) string {
	if m := exactMessage.FindStringSubmatch(detail); m != nil {
		return fmt.Sprintf("expected %q", m[1])
	}
	switch {
	case strings.HasPrefix(detail, "unexpected effect"):
		return `expected "permit" or "forbid"`
	case strings.HasPrefix(detail, "invalid primary"):
		return "expected a value, a variable or a bracket"
	default:
		return detail
	}
}

// Policy is one policy with its text and positions.
type Policy struct {
	ID     string
	Source *Source
	// Tokens are the tokens of the policy, from its first annotation to its ';'; nil once
	// findings are not needed any more.
	Tokens []Token
	// Head is the word permit or forbid.
	Head Token
	Text string
	Line int
	// Offset is where text begins in the source, in bytes.
	Offset int
	Cedar  *cedar.Policy
	AST    *AST
	Notes  annotations
	// Builtin marks the embedded defaults.
	Builtin bool
	// laid are the conditions with their positions; see Conditions.
	laid []Condition
}

// annotations are the annotations of a policy for people.
type annotations struct {
	Reason, Remedy string
	Severity       string
	// Timeout is 0 if not set.
	Timeout time.Duration
	Waives  string
	// AskReason is the question for the requester before approvers are asked.
	AskReason string
}
