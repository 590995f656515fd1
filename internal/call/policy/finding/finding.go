// Package finding is what is wrong, or what somebody should look at, in a set of
// policies or in what it is built from: with its place, the line it stands in
// and what to do about it. Loading, lint and tests of policies all find such.
package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// Severity says whether a finding keeps a set from loading.
type Severity string

// The severities of findings.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Codes of findings.
const (
	CodeSyntax         = "syntax"
	CodeTooLarge       = "too_large"
	CodeAnnotation     = "annotation"
	CodeDuplicateID    = "duplicate_id"
	CodeUnknownName    = "unknown_name"
	CodeUnknownEntity  = "unknown_entity"
	CodeWaiting        = "waiting"
	CodeUnknownValue   = "unknown_value"
	CodeType           = "type"
	CodeUnguarded      = "unguarded_optional"
	CodeNeverApplies   = "never_applies"
	CodeShadowed       = "shadowed"
	CodePermitsAll     = "permits_everything"
	CodeWaives         = "waives_approval"
	CodeHostNetwork    = "host_network"
	CodeMayError       = "may_error"
	CodePathSpelling   = "path_spelling"
	CodeCommandLine    = "command_line"
	CodeNotPerformed   = "not_performed"
	CodeShellLeftOut   = "shell_left_out"
	CodeNotMonotone    = "not_monotone"
	CodeOpaque         = "opaque_argument"
	CodeSensitiveTools = "allow_sensitive_tools"
	CodeConfig         = "config"
	CodeSample         = "sample_request"
	CodeTestFile       = "test_file"
	CodeTest           = "test"
)

// Finding is one thing that is wrong, or that somebody should look at, in a
// set of policies or what it is built from.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`
	// File is the name of the source, "" for what has no place in one.
	File string `json:"file,omitempty"`
	// Line and Column count from 1, columns in characters; 0 is no place.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	// SourceLine is the line that the finding points into.
	SourceLine string `json:"source_line,omitempty"`
	Help       string `json:"help,omitempty"`
	PolicyID   string `json:"policy_id,omitempty"`
}

// String renders the finding for people: place, severity, code and message,
// then the source line with a caret, then the help.
func (f Finding) String() string {
	var b strings.Builder
	if f.File != "" {
		fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	}
	fmt.Fprintf(&b, "%s[%s]: %s", f.Severity, f.Code, f.Message)
	if f.SourceLine != "" && f.Column > 0 {
		fmt.Fprintf(&b, "\n  %s\n  %s^", strings.TrimRight(f.SourceLine, "\r"), caretIndent(f.SourceLine, f.Column))
	}
	if f.Help != "" {
		fmt.Fprintf(&b, "\n  help: %s", f.Help)
	}
	return b.String()
}

// caretIndent is the text before the caret: tabs stay tabs, so that the caret
// stands under its character whatever the width of a tab.
func caretIndent(line string, column int) string {
	var b strings.Builder
	n := 1
	for _, r := range line {
		if n >= column {
			break
		}
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
		n++
	}
	for ; n < column; n++ {
		b.WriteByte(' ')
	}
	return b.String()
}

// LoadError says why a set of policies does not load.
type LoadError struct {
	// Findings holds at least one of severity error.
	Findings []Finding
}

// Error lists the errors among the findings.
func (e *LoadError) Error() string {
	var lines []string
	for _, f := range e.Findings {
		if f.Severity == SeverityError {
			lines = append(lines, f.String())
		}
	}
	return fmt.Sprintf("the policy set does not load: %s\n%s", text.Plural(len(lines), "error"), strings.Join(lines, "\n"))
}

// Unwrap gives the error its reason code, PolicyInvalid.
func (e *LoadError) Unwrap() error {
	return reason.Errorf(reason.PolicyInvalid, "%s", e.Error())
}

// HasErrors reports whether one of them is an error.
func HasErrors(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == SeverityError })
}

// Sort puts findings in the order of the sources, those without a
// place first.
func Sort(findings []Finding, order map[string]int) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(order[a.File], order[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Message, b.Message),
		)
	})
}
