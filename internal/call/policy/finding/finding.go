// Package finding describes errors and warnings in a set of policies or in its inputs, with
// position, source line and help. Loading, lint and policy tests all return findings.
package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// Severity states whether a finding prevents a set from loading.
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

// Finding is one error or warning in a set of policies or in its inputs.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`
	// File is the name of the source, "" without a position.
	File string `json:"file,omitempty"`
	// Line and Column count from 1, columns in characters; 0 means no position.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	// SourceLine is the line that contains the position.
	SourceLine string `json:"source_line,omitempty"`
	Help       string `json:"help,omitempty"`
	PolicyID   string `json:"policy_id,omitempty"`
}

// String formats the finding: position, severity, code and message, then the source line with a
// caret, then the help.
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

// caretIndent returns the text before the caret: tabs are kept, so that the caret is below its
// character for every tab width.
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

// LoadError describes why a set of policies does not load.
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

// Unwrap returns the reason code, PolicyInvalid.
func (e *LoadError) Unwrap() error {
	return reason.Errorf(reason.PolicyInvalid, "%s", e.Error())
}

// HasErrors reports whether one of the findings is an error.
func HasErrors(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == SeverityError })
}

// Sort orders findings by source; those without a position come first.
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
