package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// mostShown limits, in bytes, the external text that a message repeats.
const mostShown = 160

// fault is the first defect of an input, in reading order.
type fault struct {
	pointer string
	message string
	hint    string
	code    reason.Code // "" for InvalidInput
	remedy  string      // "" for the default of the code
}

// explain finds the defect of a value that the validator has refused. It only locates the
// defect, for the keywords that tools use, and returns nil if it cannot.
func explain(s *jsonschema.Schema, value any, at string) *fault {
	if f := explainKind(s, value, at); f != nil {
		return f
	}
	switch value := value.(type) {
	case map[string]any:
		return explainObject(s, value, at)
	case []any:
		return explainArray(s, value, at)
	case string:
		return explainString(s, value, at)
	case float64:
		return explainNumber(s, value, at)
	}
	return nil
}

func explainKind(s *jsonschema.Schema, value any, at string) *fault {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return hasType(value, t) }) {
		return &fault{pointer: at, message: fmt.Sprintf("want %s, got %s", strings.Join(types, " or "), typeName(value))}
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e any) bool { return jsonschema.Equal(e, value) }) {
		return explainEnum(s.Enum, value, at)
	}
	if s.Const != nil && !jsonschema.Equal(*s.Const, value) {
		return &fault{pointer: at, message: "the only value allowed is " + show(*s.Const)}
	}
	return nil
}

func explainEnum(allowed []any, value any, at string) *fault {
	names := make([]string, 0, len(allowed))
	words := make([]string, 0, len(allowed))
	for _, a := range allowed {
		names = append(names, show(a))
		if word, ok := a.(string); ok {
			words = append(words, word)
		}
	}
	f := &fault{pointer: at, message: fmt.Sprintf("%s is not one of %s", show(value), text.Ellipsis(strings.Join(names, ", "), mostShown))}
	if word, ok := value.(string); ok {
		f.hint = text.Nearest(word, words)
	}
	return f
}

func explainObject(s *jsonschema.Schema, value map[string]any, at string) *fault {
	names := slices.Sorted(maps.Keys(value))
	known := slices.Sorted(maps.Keys(s.Properties))
	if refusesOthers(s) {
		for _, name := range names {
			if _, ok := s.Properties[name]; ok || matchesPattern(s, name) {
				continue
			}
			return unknownProperty(name, known, at)
		}
	}
	for _, name := range s.Required {
		if _, ok := value[name]; !ok {
			return &fault{pointer: at, message: fmt.Sprintf("property %q is missing", name)}
		}
	}
	for _, name := range names {
		if f := explainProperty(s, name, value[name], at); f != nil {
			return f
		}
	}
	if s.MaxProperties != nil && len(value) > *s.MaxProperties {
		return &fault{pointer: at, message: fmt.Sprintf("has %d properties, at most %d are allowed", len(value), *s.MaxProperties)}
	}
	if s.MinProperties != nil && len(value) < *s.MinProperties {
		return &fault{pointer: at, message: fmt.Sprintf("has %d properties, at least %d are wanted", len(value), *s.MinProperties)}
	}
	return nil
}

func explainProperty(s *jsonschema.Schema, name string, value any, at string) *fault {
	below := at + "/" + escapePointer(name)
	if p, ok := s.Properties[name]; ok && p != nil {
		return explain(p, value, below)
	}
	if s.PropertyNames != nil {
		if f := explain(s.PropertyNames, name, below); f != nil {
			f.message = "the property's name: " + f.message
			return f
		}
	}
	if s.AdditionalProperties != nil && !refusesOthers(s) && !matchesPattern(s, name) {
		return explain(s.AdditionalProperties, value, below)
	}
	return nil
}

func unknownProperty(name string, known []string, at string) *fault {
	f := &fault{pointer: at + "/" + escapePointer(name), hint: text.Nearest(name, known)}
	f.message = fmt.Sprintf("unknown property %q", text.Ellipsis(name, mostShown))
	if f.hint != "" {
		f.message += fmt.Sprintf("; did you mean %q?", f.hint)
	} else if len(known) > 0 {
		f.message += "; known are " + text.Ellipsis(strings.Join(known, ", "), mostShown)
	}
	return f
}

// refusesOthers reports whether additionalProperties is false, which the
// library reads as {"not": {}}.
func refusesOthers(s *jsonschema.Schema) bool {
	a := s.AdditionalProperties
	return a != nil && a.Not != nil && jsonEqual(a.Not, &jsonschema.Schema{})
}

func jsonEqual(a, b *jsonschema.Schema) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

func matchesPattern(s *jsonschema.Schema, name string) bool {
	for pattern := range s.PatternProperties {
		if re, err := regexp.Compile(pattern); err == nil && re.MatchString(name) {
			return true
		}
	}
	return false
}

func explainArray(s *jsonschema.Schema, value []any, at string) *fault {
	if s.MaxItems != nil && len(value) > *s.MaxItems {
		return &fault{pointer: at, message: fmt.Sprintf("has %d items, at most %d are allowed", len(value), *s.MaxItems)}
	}
	if s.MinItems != nil && len(value) < *s.MinItems {
		return &fault{pointer: at, message: fmt.Sprintf("has %d items, at least %d are wanted", len(value), *s.MinItems)}
	}
	if s.Items == nil {
		return nil
	}
	for i := len(s.PrefixItems); i < len(value); i++ {
		if f := explain(s.Items, value[i], at+"/"+strconv.Itoa(i)); f != nil {
			return f
		}
	}
	return nil
}

func explainString(s *jsonschema.Schema, value, at string) *fault {
	n := utf8.RuneCountInString(value)
	if s.MaxLength != nil && n > *s.MaxLength {
		return &fault{pointer: at, message: fmt.Sprintf("has %d characters, at most %d are allowed", n, *s.MaxLength)}
	}
	if s.MinLength != nil && n < *s.MinLength {
		return &fault{pointer: at, message: fmt.Sprintf("has %d characters, at least %d are wanted", n, *s.MinLength)}
	}
	if s.Pattern == "" {
		return nil
	}
	if re, err := regexp.Compile(s.Pattern); err == nil && !re.MatchString(value) {
		return &fault{pointer: at, message: fmt.Sprintf("does not match the pattern %s", text.Ellipsis(s.Pattern, mostShown))}
	}
	return nil
}

func explainNumber(s *jsonschema.Schema, value float64, at string) *fault {
	say := func(format string, limit float64) *fault {
		return &fault{pointer: at, message: fmt.Sprintf("%v %s %v", show(value), format, show(limit))}
	}
	switch {
	case s.Minimum != nil && value < *s.Minimum:
		return say("is less than", *s.Minimum)
	case s.Maximum != nil && value > *s.Maximum:
		return say("is greater than", *s.Maximum)
	case s.ExclusiveMinimum != nil && value <= *s.ExclusiveMinimum:
		return say("is not greater than", *s.ExclusiveMinimum)
	case s.ExclusiveMaximum != nil && value >= *s.ExclusiveMaximum:
		return say("is not less than", *s.ExclusiveMaximum)
	}
	return nil
}

func hasType(value any, name string) bool {
	got := typeName(value)
	return got == name || got == "integer" && name == "number"
}

func typeName(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if value == math.Trunc(value) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// plainError names the keyword that refused a value. It omits the rest of the library's
// message, which formats values as Go does.
func plainError(err error) string {
	text := err.Error()
	for strings.HasPrefix(text, "validating ") {
		_, rest, ok := strings.Cut(text, ": ")
		if !ok {
			break
		}
		text = rest
	}
	keyword, _, _ := strings.Cut(text, ":")
	keyword, _, _ = strings.Cut(keyword, "[") // of dependentRequired["name"]
	switch {
	case strings.HasPrefix(text, "unexpected additional properties"):
		return "it has properties that the schema does not declare"
	case slices.Contains(refusing, keyword):
		return "it does not fit the keyword " + keyword + " of the schema"
	}
	return "it does not fit the schema"
}

// refusing are the keywords that the library's messages name.
var refusing = []string{
	"allOf", "anyOf", "const", "contains", "dependentRequired", "enum", "exclusiveMaximum", "exclusiveMinimum", "maxContains", "maxItems", "maxLength", "maxProperties",
	"maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern", "required", "type", "uniqueItems",
}

func show(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		return "this value"
	}
	return text.Ellipsis(string(content), mostShown)
}
