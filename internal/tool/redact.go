package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"palyra/internal/canonical"
)

// Redaction is what stands in the place of a secret.
const Redaction = "[redacted]"

// secretShapes are well-known forms of keys: what matches is a secret wherever
// it stands.
var secretShapes = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), // private key
	regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`),                                                    // AWS access key
	regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})\b`),                  // GitHub token
	regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`),                                                     // GitLab token
	regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`),                                               // Slack token
	regexp.MustCompile(`\bsk-(ant-|proj-)?[A-Za-z0-9_-]{20,}`),                                           // API key
	regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}\b`),                                                      // Google API key
	regexp.MustCompile(`\bpal_[A-Za-z0-9]+_[A-Za-z0-9_-]{20,}`),                                          // Palyra token
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`),                // JSON Web Token
	regexp.MustCompile(`(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*`),                                        // bearer token
}

// Redact returns the canonical JSON of an input with secrets replaced by
// Redaction, and the JSON Pointers (RFC 6901) of what was replaced, sorted:
// the values at the pointers that the tool declares, and whatever has the form
// of a well-known key. Without any, it returns input itself.
func Redact(input json.RawMessage, secretPaths []string) (json.RawMessage, []string, error) {
	if len(input) == 0 {
		return input, nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, nil, fmt.Errorf("reading JSON to redact: %w", err)
	}
	r := redactor{declared: secretPaths}
	value = r.walk("", value)
	if len(r.found) == 0 {
		return input, nil, nil
	}
	slices.Sort(r.found)
	text, err := canonical.Marshal(value)
	return text, slices.Compact(r.found), err
}

type redactor struct {
	// declared are the JSON Pointers (RFC 6901) that the tool names.
	declared []string
	found    []string
}

func (r *redactor) walk(pointer string, value any) any {
	if slices.Contains(r.declared, pointer) {
		r.found = append(r.found, pointer)
		return Redaction
	}
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = r.walk(pointer+"/"+escapePointer(name), member)
		}
	case []any:
		for i, member := range v {
			v[i] = r.walk(pointer+"/"+strconv.Itoa(i), member)
		}
	case string:
		return r.text(pointer, v)
	}
	return value
}

func (r *redactor) text(pointer, text string) string {
	for _, shape := range secretShapes {
		if shape.MatchString(text) {
			r.found = append(r.found, pointer)
			text = shape.ReplaceAllLiteralString(text, Redaction)
		}
	}
	return text
}
