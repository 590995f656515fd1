package expr

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"palyra/internal/call/policy/finding"
	"palyra/internal/core/lazyregexp"
)

var annotationNames = []string{"id", "ask_reason", "reason", "remedy", "severity", "timeout", "waives"}

var idForm = lazyregexp.New(`^[a-z0-9][a-z0-9._/-]{0,127}$`)

var waivesForm = lazyregexp.New(`^approval: *\S`)

const maxAnnotation = 500

// maxAskReason bounds the question of an @ask_reason, in bytes.
const maxAskReason = 120

// readAnnotations fills c.id and c.notes, and finds unknown and malformed annotations: a
// misspelt annotation would be silently ignored.
func (c *Policy) readAnnotations() []finding.Finding {
	var findings []finding.Finding
	for _, a := range c.AST.Annotations {
		name, value := string(a.Key), string(a.Value)
		place := c.AnnotationToken(name)
		if !slices.Contains(annotationNames, name) {
			f := c.At(place, finding.SeverityError, finding.CodeAnnotation, "unknown annotation @%s", name)
			f.Help = finding.DidYouMean(name, annotationNames)
			if f.Help == "" {
				f.Help = "the annotations are @" + strings.Join(annotationNames, ", @")
			}
			findings = append(findings, f)
			continue
		}
		if problem, help := c.readAnnotation(name, value); problem != "" {
			f := c.At(place, finding.SeverityError, finding.CodeAnnotation, "@%s: %s", name, problem)
			f.Help = help
			findings = append(findings, f)
		}
	}
	findings = append(findings, c.checkTimeout()...)
	for i := range findings {
		findings[i].PolicyID = c.ID
	}
	return findings
}

func (c *Policy) readAnnotation(name, value string) (problem, help string) {
	if problem := plainText(value); problem != "" {
		return problem, ""
	}
	switch name {
	case "id":
		if !idForm.MatchString(value) {
			return "an id is 1 to 128 of a-z, 0-9, '.', '_', '/', '-' and begins with a letter or digit", ""
		}
		c.ID = value
	case "ask_reason":
		if len(value) > maxAskReason {
			return fmt.Sprintf("the question is longer than %d bytes: it is part of an error message", maxAskReason), ""
		}
		c.Notes.AskReason = value
	case "reason":
		c.Notes.Reason = value
	case "remedy":
		c.Notes.Remedy = value
	case "severity":
		if !slices.Contains(Severities, value) {
			return "a severity is low, medium, high or critical", finding.DidYouMean(value, Severities)
		}
		c.Notes.Severity = value
	case "timeout":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return `a timeout is a duration such as "90s", "10m" or "2h"`, ""
		}
		c.Notes.Timeout = d
	case "waives":
		if !waivesForm.MatchString(value) {
			return `name the waived requirement and the reason: @waives("approval: <why>")`, ""
		}
		c.Notes.Waives = value
	}
	return "", ""
}

// plainText returns the problem of a text that would not display as written.
func plainText(value string) string {
	switch {
	case strings.TrimSpace(value) == "":
		return "the text is empty"
	case len(value) > maxAnnotation:
		return "the text is longer than 500 bytes"
	case strings.ContainsFunc(value, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}):
		return "the text holds control or invisible characters"
	}
	return ""
}

// checkTimeout clamps a timeout to the bounds and reports it.
func (c *Policy) checkTimeout() []finding.Finding {
	d := c.Notes.Timeout
	if d == 0 || (d >= MinTimeout && d <= MaxTimeout) {
		return nil
	}
	c.Notes.Timeout = min(max(d, MinTimeout), MaxTimeout)
	return []finding.Finding{c.At(c.AnnotationToken("timeout"), finding.SeverityWarning, finding.CodeAnnotation,
		"@timeout: %s is outside 30s to 24h; using %s", d, c.Notes.Timeout)}
}

// AnnotationToken returns the token of an annotation's name.
func (c *Policy) AnnotationToken(name string) Token {
	for i := 1; i < len(c.Tokens); i++ {
		if c.Tokens[i-1].Text == "@" && c.Tokens[i].Text == name {
			return c.Tokens[i]
		}
	}
	return c.Tokens[0]
}

// Bounds of the time that an ask waits for an answer, as set by a policy.
const (
	MinTimeout = 30 * time.Second
	MaxTimeout = 24 * time.Hour
)
