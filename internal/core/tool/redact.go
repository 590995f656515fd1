package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/encoded"
)

// Redaction replaces a secret.
const Redaction = "[redacted]"

// Redact returns the canonical JSON of an input with secrets replaced by Redaction, and the
// sorted JSON Pointers (RFC 6901) of the replacements. It replaces the values at the pointers
// that the tool declares. It also replaces text in the form of a well-known key, in values and
// names of members, plain or in base64. Without replacements, it returns input itself.
func Redact(input json.RawMessage, secretPaths []string) (json.RawMessage, []string, error) {
	if len(input) == 0 || len(secretPaths) == 0 && clean(input) && canonical.Valid(input) {
		return input, nil, nil
	}
	return redact(input, secretPaths)
}

// clean reports whether no string of a JSON text can have the form of a key: the text has no
// hint, plain or in base64, and no \u escape, which could encode one.
func clean(text []byte) bool {
	if bytes.Contains(text, []byte(`\u`)) {
		return false
	}
	if escapedWithin(text) {
		text = unescaped(text)
	}
	return !hinted(text) && !hintedWithin(text, encodedRounds)
}

// escapedWithin reports whether base64 may continue after an escape: after an escaped slash or
// line end. No other escape can represent a character of base64 or of a hint.
func escapedWithin(text []byte) bool {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 || at+1 == len(text) {
			return false
		}
		switch text[at+1] {
		case '/':
			return true
		case 'n', 'r':
			if at >= encoded.WrapFrom && encoded.Dense(text[at-encoded.WrapFrom:at]) {
				return true
			}
		}
		text = text[at+2:]
	}
}

// unescaped decodes the one-letter escapes of JSON, so that base64 occurs in the text as it
// does in its strings.
func unescaped(text []byte) []byte {
	const letters, meanings = "bfnrt", "\b\f\n\r\t"
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		b := text[i]
		if b == '\\' && i+1 < len(text) {
			i++
			b = text[i]
			if n := strings.IndexByte(letters, b); n >= 0 {
				b = meanings[n]
			}
		}
		out = append(out, b)
	}
	return out
}

// redact is Redact for a text that may contain a secret.
func redact(input json.RawMessage, secretPaths []string) (json.RawMessage, []string, error) {
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
		r.found[i] = RedactText(pointer) // pointers contain the names of members
	}
	slices.Sort(r.found)
	text, err := canonical.Marshal(value)
	return text, slices.Compact(r.found), err
}

type redactor struct {
	// declared are the SecretPaths of the tool.
	declared []string
	found    []string
}

func (r *redactor) walk(pointer string, value any) any {
	if r.hides(pointer) {
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

// hides reports whether the tool declares a pointer, or declares all members of its parent without
// excepting it.
func (r *redactor) hides(pointer string) bool {
	if slices.Contains(r.declared, pointer) {
		return true
	}
	within := pointer[:strings.LastIndexByte(pointer, '/')+1]
	return within != "" && slices.Contains(r.declared, within+"*") && !slices.Contains(r.declared, "!"+pointer)
}

// PathsBelow returns the SecretPaths of a value that is at a pointer of another value.
func PathsBelow(pointer string, secretPaths []string) []string {
	below := make([]string, len(secretPaths))
	for i, path := range secretPaths {
		if excepted, ok := strings.CutPrefix(path, "!"); ok {
			below[i] = "!" + pointer + excepted
		} else {
			below[i] = pointer + path
		}
	}
	return below
}

// object redacts the members and their names, because names may contain secrets.
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

// taken reports whether one of the objects has a member of that name.
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
