package policy

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"palyra/internal/lazyregexp"
)

// annotations are the data for people that a policy carries.
type annotations struct {
	reason, remedy string
	severity       string
	// timeout is 0 when there is none.
	timeout time.Duration
	waives  string
}

var annotationNames = []string{"id", "reason", "remedy", "severity", "timeout", "waives"}

var idForm = lazyregexp.New(`^[a-z0-9][a-z0-9._/-]{0,127}$`)

var waivesForm = lazyregexp.New(`^approval: *\S`)

const maxAnnotation = 500

// readAnnotations fills c.id and c.notes, and finds what is unknown or
// malformed: an annotation that nobody reads is a rule that nobody keeps.
func (c *compiled) readAnnotations() []Finding {
	var findings []Finding
	for _, a := range c.ast.Annotations {
		name, value := string(a.Key), string(a.Value)
		place := c.annotationToken(name)
		if !slices.Contains(annotationNames, name) {
			f := c.at(place, SeverityError, CodeAnnotation, "unknown annotation @%s", name)
			f.Help = didYouMean(name, annotationNames)
			if f.Help == "" {
				f.Help = "the annotations are @" + strings.Join(annotationNames, ", @")
			}
			findings = append(findings, f)
			continue
		}
		if problem, help := c.readAnnotation(name, value); problem != "" {
			f := c.at(place, SeverityError, CodeAnnotation, "@%s: %s", name, problem)
			f.Help = help
			findings = append(findings, f)
		}
	}
	findings = append(findings, c.checkTimeout()...)
	for i := range findings {
		findings[i].PolicyID = c.id
	}
	return findings
}

func (c *compiled) readAnnotation(name, value string) (problem, help string) {
	if problem := plainText(value); problem != "" {
		return problem, ""
	}
	switch name {
	case "id":
		if !idForm.MatchString(value) {
			return "an id is 1 to 128 of a-z, 0-9, '.', '_', '/', '-' and begins with a letter or digit", ""
		}
		c.id = value
	case "reason":
		c.notes.reason = value
	case "remedy":
		c.notes.remedy = value
	case "severity":
		if !slices.Contains(severities, value) {
			return "a severity is low, medium, high or critical", didYouMean(value, severities)
		}
		c.notes.severity = value
	case "timeout":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return `a timeout is a duration such as "90s", "10m" or "2h"`, ""
		}
		c.notes.timeout = d
	case "waives":
		if !waivesForm.MatchString(value) {
			return `say what is waived and why: @waives("approval: <why>")`, ""
		}
		c.notes.waives = value
	}
	return "", ""
}

// plainText refuses what would not show as written.
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

// checkTimeout clamps a timeout into the bounds and says so.
func (c *compiled) checkTimeout() []Finding {
	d := c.notes.timeout
	if d == 0 || (d >= MinTimeout && d <= MaxTimeout) {
		return nil
	}
	c.notes.timeout = min(max(d, MinTimeout), MaxTimeout)
	return []Finding{c.at(c.annotationToken("timeout"), SeverityWarning, CodeAnnotation,
		"@timeout: %s is outside 30s to 24h; %s counts", d, c.notes.timeout)}
}

// annotationToken returns the token of an annotation's name.
func (c *compiled) annotationToken(name string) token {
	for i := 1; i < len(c.tokens); i++ {
		if c.tokens[i-1].text == "@" && c.tokens[i].text == name {
			return c.tokens[i]
		}
	}
	return c.tokens[0]
}
