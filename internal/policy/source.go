package policy

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/lazyregexp"
)

// Limits on policy text. They keep a hostile or broken file from exhausting
// the stack of cedar-go's recursive parser, typechecker and evaluator.
const (
	maxSourceSize   = 4 << 20
	maxPolicyTokens = 20_000
	maxNesting      = 100
)

// sourceText is one source, in lines, for findings.
type sourceText struct {
	name  string
	text  string
	lines []string
}

func newSourceText(s Source) *sourceText {
	return &sourceText{name: s.Name, text: s.Text, lines: strings.Split(s.Text, "\n")}
}

func (s *sourceText) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// finding makes a finding at a place in s.
func (s *sourceText) finding(sev Severity, code string, line, column int, format string, args ...any) Finding {
	return Finding{
		Severity: sev, Code: code, File: s.name, Line: line, Column: column,
		Message: fmt.Sprintf(format, args...), SourceLine: s.line(line),
	}
}

// compiled is one policy with its text and what was read from it.
type compiled struct {
	id     string
	source *sourceText
	// tokens are those of the policy, from its first annotation to its ';'.
	tokens []token
	text   string
	line   int
	// offset is where text begins in the source, in bytes.
	offset int
	policy *cedar.Policy
	ast    *astPolicy
	notes  annotations
	// builtin marks the embedded defaults.
	builtin bool
	// order is the policy's place in the set.
	order int
	// laid are the conditions with their places; see conditions.
	laid []condition
	// approval is true when a condition mentions context.approval.
	approval bool
	// votes is true when a condition mentions context.approval.votes.
	votes bool
	// reads is what the conditions read of a call's context.
	reads attributes
	// wants is the text of the conjuncts that mention context.approval.
	wants       string
	determining Determining
}

func (c *compiled) permits() bool { return c.policy.Effect() == cedar.Permit }

// at makes a finding at one of the policy's tokens.
func (c *compiled) at(t token, sev Severity, code, format string, args ...any) Finding {
	f := c.source.finding(sev, code, t.line, t.column, format, args...)
	f.PolicyID = c.id
	return f
}

// start makes a finding at the policy's effect keyword.
func (c *compiled) start(sev Severity, code, format string, args ...any) Finding {
	for _, t := range c.tokens {
		if t.kind == tokIdent && (t.text == "permit" || t.text == "forbid") {
			return c.at(t, sev, code, format, args...)
		}
	}
	return c.at(c.tokens[0], sev, code, format, args...)
}

// parseSource splits a source into policies and parses each, so that one
// broken policy does not hide the next one's mistakes.
func parseSource(src Source, builtin bool) (policies []*compiled, text *sourceText, findings []Finding) {
	s := newSourceText(src)
	if len(src.Text) > maxSourceSize {
		return nil, s, []Finding{{Severity: SeverityError, Code: CodeTooLarge, File: src.Name, Line: 1, Column: 1,
			Message: fmt.Sprintf("the file has %d bytes; the limit is %d", len(src.Text), maxSourceSize)}}
	}
	tokens, lexErrors := tokenize(src.Text)
	for _, e := range lexErrors {
		findings = append(findings, s.finding(SeverityError, CodeSyntax, e.line, e.column, "%s", e.message))
	}
	if len(lexErrors) > 0 {
		return nil, s, findings
	}
	for n, chunk := range splitPolicies(tokens) {
		p, f := parsePolicy(s, chunk, fmt.Sprintf("%s#%d", path.Base(src.Name), n+1))
		findings = append(findings, f...)
		if p != nil {
			p.builtin = builtin
			policies = append(policies, p)
		}
	}
	return policies, s, findings
}

// splitPolicies cuts tokens after each ';'. Cedar has no other use for it.
func splitPolicies(tokens []token) [][]token {
	var chunks [][]token
	start := 0
	for i, t := range tokens {
		if t.kind == tokPunct && t.text == ";" {
			chunks = append(chunks, tokens[start:i+1])
			start = i + 1
		}
	}
	if start < len(tokens) {
		chunks = append(chunks, tokens[start:])
	}
	return chunks
}

func parsePolicy(s *sourceText, tokens []token, fallbackID string) (*compiled, []Finding) {
	if f, ok := tooComplex(s, tokens); ok {
		return nil, []Finding{f}
	}
	first, last := tokens[0], tokens[len(tokens)-1]
	text := s.text[first.offset:last.end()]
	var policy cedar.Policy
	if err := policy.UnmarshalCedar([]byte(text)); err != nil {
		return nil, []Finding{syntaxFinding(s, tokens, err)}
	}
	policy.SetFilename(s.name)
	c := &compiled{
		id: fallbackID, source: s, tokens: tokens, text: text, line: first.line, offset: first.offset,
		policy: &policy, ast: astOf(&policy),
	}
	findings := c.readAnnotations()
	c.conditions()
	c.reads = c.contextReads()
	c.approval = c.mentions("context", "approval")
	c.votes = c.approval && c.mentionsVotes()
	if c.approval {
		c.wants = c.conditionText(readsApproval)
	}
	c.determining = Determining{
		ID: c.id, File: s.name, Line: c.line, Effect: effectWord(c.permits()), Condition: c.conditionText(nil),
		Reason: c.notes.reason, Remedy: c.notes.remedy, Severity: c.notes.severity,
	}
	return c, findings
}

func effectWord(permit bool) string {
	if permit {
		return "permit"
	}
	return "forbid"
}

func tooComplex(s *sourceText, tokens []token) (Finding, bool) {
	if len(tokens) > maxPolicyTokens {
		t := tokens[0]
		return s.finding(SeverityError, CodeTooLarge, t.line, t.column,
			"the policy has %d tokens; the limit is %d", len(tokens), maxPolicyTokens), true
	}
	depth, run := 0, 0
	for _, t := range tokens {
		switch t.text {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		}
		if t.text == "!" || t.text == "-" || t.text == "if" || t.text == "else" {
			run++
		}
		if depth > maxNesting || run > 10*maxNesting {
			return s.finding(SeverityError, CodeTooLarge, t.line, t.column,
				"the policy is nested deeper than %d levels", maxNesting), true
		}
	}
	return Finding{}, false
}

var parsePlace = lazyregexp.New(`at <input>:(\d+):(\d+)(?: "(?:[^"\\]|\\.)*")?: (.*)$`)

var policyWords = []string{"permit", "forbid", "principal", "action", "resource", "when", "unless", "context"}

// syntaxFinding places a parse error. cedar-go names the token after the one
// that it did not like, unless it only looked ahead; the text of the message
// tells which.
func syntaxFinding(s *sourceText, tokens []token, err error) Finding {
	message := strings.TrimPrefix(err.Error(), "parser error: ")
	m := parsePlace.FindStringSubmatch(message)
	if m == nil {
		t := tokens[0]
		return s.finding(SeverityError, CodeSyntax, t.line, t.column, "%s", message)
	}
	detail := m[3]
	i := tokenAt(tokens, m[1], m[2])
	if i == len(tokens) && endedEarly(detail) {
		t := tokens[len(tokens)-1]
		return s.finding(SeverityError, CodeSyntax, t.line, t.column+len(t.text),
			"the policy ends early: %s", syntaxText(detail))
	}
	t := tokens[max(i-1, 0)]
	if looksAhead(detail) && i < len(tokens) {
		t = tokens[i]
	}
	f := s.finding(SeverityError, CodeSyntax, t.line, t.column, "unexpected %q: %s", t.text, syntaxText(detail))
	if t.kind == tokIdent {
		f.Help = didYouMean(t.text, policyWords)
	}
	return f
}

// tokenAt finds a token by the place that it has within its policy's text.
func tokenAt(tokens []token, line, column string) int {
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

// looksAhead tells the messages that cedar-go writes before it takes the
// token.
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

// mentions reports whether a condition reads variable.attribute.
func (c *compiled) mentions(variable, attribute string) bool {
	found := false
	for _, cond := range c.ast.Conditions {
		inspect(cond.Body, func(n astNode) bool {
			if a, ok := n.(nodeAccess); ok && string(a.Value) == attribute {
				if v, ok := a.Arg.(nodeVariable); ok && string(v.Name) == variable {
					found = true
				}
			}
			return !found
		})
	}
	return found
}

// readsText reports whether a condition reads a place and a condition has the
// text, such as in a comparison of the two.
func (c *compiled) readsText(text string, place ...string) bool {
	reads, has := false, false
	for _, cond := range c.conditions() {
		cond.body.walk(func(t *tree) bool {
			reads = reads || slices.Equal(t.chain(), place)
			if v, ok := t.node.(nodeValue); ok {
				has = has || v.Value.Equal(types.String(text))
			}
			return true
		})
	}
	return reads && has
}

// mentionsVotes reports whether a condition reads context.approval.votes.
func (c *compiled) mentionsVotes() bool {
	found := false
	for _, cond := range c.conditions() {
		cond.body.walk(func(t *tree) bool {
			if chain := t.chain(); len(chain) > 2 && chain[0] == "context" && chain[1] == "approval" {
				found = found || chain[2] == "votes"
				return false
			}
			return true
		})
	}
	return found
}
