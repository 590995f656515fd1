package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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
// of a well-known key, in values and in the names of members. Without any, it
// returns input itself.
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
	for i, pointer := range r.found {
		r.found[i] = RedactText(pointer) // it holds the names of members
	}
	slices.Sort(r.found)
	text, err := canonical.Marshal(value)
	return text, slices.Compact(r.found), err
}

// RedactText returns plain text, such as a summary, a diff or a message, with
// whatever has the form of a well-known key replaced by Redaction. Text without
// any comes back as it is. JSON is for Redact: an escape before a key could
// hide it here.
func RedactText(text string) string {
	for _, shape := range secretShapes {
		text = shape.ReplaceAllLiteralString(text, Redaction)
	}
	return text
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
		return r.object(pointer, v)
	case []any:
		for i, member := range v {
			v[i] = r.walk(pointer+"/"+strconv.Itoa(i), member)
		}
	case string:
		return r.text(pointer, v)
	}
	return value
}

// object redacts the members and their names: a name is text like any other.
func (r *redactor) object(pointer string, members map[string]any) map[string]any {
	out := make(map[string]any, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		at := pointer + "/" + escapePointer(name)
		shown := r.text(at, name)
		for n := 2; shown != name && taken(shown, out, members); n++ {
			shown = RedactText(name) + " " + strconv.Itoa(n)
		}
		out[shown] = r.walk(at, members[name])
	}
	return out
}

// taken reports whether a member has, or will have, that name.
func taken(name string, objects ...map[string]any) bool {
	return slices.ContainsFunc(objects, func(o map[string]any) bool {
		_, there := o[name]
		return there
	})
}

func (r *redactor) text(pointer, text string) string {
	clean := RedactText(text)
	if clean != text {
		r.found = append(r.found, pointer)
	}
	return clean
}
