package tool

import (
	"strconv"

	"palyra/internal/core/reason"
)

// The maximum cost of checking one input, in steps. A step applies one schema to one value. A
// schema that refers to itself in several alternatives can double the steps with each level of
// an input.
const (
	mostSteps          = 100_000
	mostStepsPerValue  = 8
	mostTokensOfSchema = 32 // this many names or values of a schema count as one step
)

// effort is the cost of applying a schema to a value.
type effort struct {
	own  int
	same []*effort
	// fields are the efforts of members by name, members the efforts for every member, and items
	// the efforts for every item.
	fields         map[string]*effort
	members, items []*effort
}

// efforts computes the effort of each place of a schema.
type efforts struct {
	root   any
	places map[string]*effort
}

func (m *efforts) at(place string) *effort {
	if e := m.places[place]; e != nil {
		return e
	}
	e := &effort{}
	m.places[place] = e
	node, err := lookup(m.root, place)
	schema, ok := node.(map[string]any)
	if err != nil || !ok {
		return e
	}
	tokens := len(schema)
	for _, keyword := range []string{"enum", "required"} {
		list, _ := schema[keyword].([]any)
		tokens += len(list)
	}
	properties, _ := schema["properties"].(map[string]any)
	patterns, _ := schema[schemasByNames].(map[string]any)
	e.own = (tokens + len(properties)) / mostTokensOfSchema
	for _, next := range sameValue(schema, place) {
		e.same = append(e.same, m.at(next))
	}
	e.fields = make(map[string]*effort, len(properties))
	for name := range properties {
		e.fields[name] = m.at(place + "/properties/" + escapePointer(name))
	}
	for pattern := range patterns {
		e.members = append(e.members, m.at(place+"/"+schemasByNames+"/"+escapePointer(pattern)))
	}
	for _, keyword := range []string{"additionalProperties", "unevaluatedProperties", "propertyNames"} {
		if _, there := schema[keyword]; there {
			e.members = append(e.members, m.at(place+"/"+keyword))
		}
	}
	e.items = m.itemsOf(schema, place)
	return e
}

func (m *efforts) itemsOf(schema map[string]any, place string) (all []*effort) {
	for _, keyword := range append([]string{"prefixItems"}, itemSchemas...) {
		switch items := schema[keyword].(type) {
		case map[string]any:
			all = append(all, m.at(place+"/"+keyword))
		case []any:
			for i := range items {
				all = append(all, m.at(place+"/"+keyword+"/"+strconv.Itoa(i)))
			}
		}
	}
	return all
}

// spend subtracts the steps of applying e to a value from left, and reports whether they
// suffice. It counts every branch, and therefore at least as many steps as the validator takes.
func (e *effort) spend(value any, left *int) bool {
	if *left -= 1 + e.own; *left < 0 {
		return false
	}
	for _, same := range e.same {
		if !same.spend(value, left) {
			return false
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if field := e.fields[name]; field != nil && !field.spend(member, left) {
				return false
			}
			if !spendAll(e.members, member, left) {
				return false
			}
		}
	case []any:
		for _, item := range value {
			if !spendAll(e.items, item, left) {
				return false
			}
		}
	}
	return true
}

func spendAll(all []*effort, value any, left *int) bool {
	for _, e := range all {
		if !e.spend(value, left) {
			return false
		}
	}
	return true
}

// valuesIn counts the values in an input.
func valuesIn(value any) int {
	n := 1
	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			n += valuesIn(member)
		}
	case []any:
		for _, item := range value {
			n += valuesIn(item)
		}
	}
	return n
}

// affordable refuses an input that would take too many steps.
func (s *Schema) affordable(value any) error {
	left := mostSteps + mostStepsPerValue*valuesIn(value)
	if s.effort.spend(value, &left) {
		return nil
	}
	return reason.Errorf(reason.InputTooLarge, "checking the input against the schema of the tool takes too many steps: its schemas apply to the same values again and again").
		WithRemedy("%s", smallerInput)
}

const smallerInput = "Send an input that is nested less deeply, or in several calls."
