package tool

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// keyChecker refuses input keys that two decoders could interpret differently. Many decoders,
// including Go's, match keys without regard to case: a key that is unknown to policy and people
// could be a declared property for the executor. If the schema declares or requires properties
// of an object, no key may fold to a declared one without being equal to it. No two keys may
// fold to the same name (simple case folding of Unicode, CaseFolding.txt). Other objects are
// maps, whose keys are compared exactly.
//
// The rules for an object are collected from every branch of the schema, including branches that
// the object does not match: an executor may decide by another branch.
type keyChecker struct {
	root any
	// known caches the members of each list of schemas, by their places.
	known map[string]*members
	// left is the remaining number of steps.
	left int
}

// members describes the members that several schemas for one value declare.
type members struct {
	// declared maps property names to the places of their schemas. folded maps folded names to
	// property names.
	declared map[string][]string
	folded   map[string]string
	others   []otherSchema
	// items are the places of the schemas for items.
	items []string
}

// otherSchema applies to the members that its sibling keyword "properties" does not declare.
type otherSchema struct {
	at       string
	declared map[string]any
}

// below returns the places of the schemas for a member.
func (s *members) below(name string) []string {
	places := slices.Clone(s.declared[name])
	for _, other := range s.others {
		if _, declared := other.declared[name]; !declared {
			places = append(places, other.at)
		}
	}
	return places
}

// check returns a fault for the first ambiguous key in a value.
func (c *keyChecker) check(value any, places []string, at string) *fault {
	if c.left -= 1 + len(places); c.left < 0 {
		return &fault{pointer: at, code: reason.InputTooLarge, message: "looking for its keys in the schema of the tool takes too many steps", remedy: smallerInput}
	}
	switch value := value.(type) {
	case map[string]any:
		s := c.membersOf(places)
		if found := s.checkNames(value, at); found != nil {
			return found
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if found := c.check(value[name], s.below(name), at+"/"+escapePointer(name)); found != nil {
				return found
			}
		}
	case []any:
		s := c.membersOf(places)
		for i, item := range value {
			if found := c.check(item, s.items, at+"/"+strconv.Itoa(i)); found != nil {
				return found
			}
		}
	}
	return nil
}

// checkNames checks the keys of one object.
func (s *members) checkNames(object map[string]any, at string) *fault {
	if len(s.declared) == 0 {
		return nil
	}
	seen := make(map[string]string, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		folded := canonical.Fold(name)
		_, declared := s.declared[name]
		if property, there := s.folded[folded]; there && !declared {
			return &fault{pointer: at + "/" + escapePointer(name), message: "the key " + show(name) + " differs from the property " + show(property) + " only in case", hint: property}
		}
		if before, there := seen[folded]; there {
			return &fault{pointer: at + "/" + escapePointer(name), message: "the keys " + show(before) + " and " + show(name) + " differ only in case", code: reason.DuplicateKey}
		}
		seen[folded] = name
	}
	return nil
}

// membersOf returns the members declared by the schemas at places, including all schemas that apply
// to the same value.
func (c *keyChecker) membersOf(places []string) *members {
	key := fmt.Sprintf("%q", places) // %q separates names, which may contain any character
	if s := c.known[key]; s != nil {
		return s
	}
	s := &members{declared: map[string][]string{}, folded: map[string]string{}}
	c.known[key] = s
	seen := map[string]bool{}
	for queue := slices.Clone(places); len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		node, err := lookup(c.root, at)
		schema, ok := node.(map[string]any)
		if err != nil || !ok {
			continue // true, false, or not a schema
		}
		queue = append(queue, sameValue(schema, at)...)
		s.add(schema, at)
	}
	return s
}

// The keywords whose schemas apply to members and to items.
var (
	memberSchemas  = []string{"additionalProperties", "unevaluatedProperties"}
	itemSchemas    = []string{"items", "contains", "additionalItems", "unevaluatedItems"}
	schemasByNames = "patternProperties"
)

func (s *members) add(schema map[string]any, at string) {
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		s.declare(name, at+"/properties/"+escapePointer(name))
	}
	required, _ := schema["required"].([]any)
	for _, one := range required {
		if name, ok := one.(string); ok {
			s.declare(name)
		}
	}
	for _, keyword := range memberSchemas {
		if _, there := schema[keyword]; there {
			s.others = append(s.others, otherSchema{at + "/" + keyword, properties})
		}
	}
	patterns, _ := schema[schemasByNames].(map[string]any)
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		s.others = append(s.others, otherSchema{at: at + "/" + schemasByNames + "/" + escapePointer(pattern)})
	}
	for _, keyword := range itemSchemas {
		switch items := schema[keyword].(type) {
		case map[string]any:
			s.items = append(s.items, at+"/"+keyword)
		case []any: // a tuple of drafts before 2020-12
			s.items = append(s.items, tuple(at+"/"+keyword, items)...)
		}
	}
	if items, ok := schema["prefixItems"].([]any); ok {
		s.items = append(s.items, tuple(at+"/prefixItems", items)...)
	}
}

// declare adds a property, with the place of its schema if it has one.
func (s *members) declare(name string, at ...string) {
	s.declared[name] = append(s.declared[name], at...)
	// If several properties fold to the same name, messages use the first one.
	if before, there := s.folded[canonical.Fold(name)]; !there || name < before {
		s.folded[canonical.Fold(name)] = name
	}
}

func tuple(at string, items []any) (places []string) {
	for i := range items {
		places = append(places, at+"/"+strconv.Itoa(i))
	}
	return places
}
