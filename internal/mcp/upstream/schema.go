package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"palyra/internal/tool"
)

// The most that the schema of one tool may be. A schema that is larger says nothing
// that a model could use, and checking inputs against it could take for ever.
const (
	mostSchemaBytes = 64 << 10
	mostSchemaDepth = 32
	// mostSchemaNodes counts values once all references are followed.
	mostSchemaNodes = 20_000
)

var errCyclic = errors.New("it refers to itself beside alternatives (anyOf and the like): checking an input could take for ever")

// bounded refuses schemas that are bombs: too large, too deep, or whose references
// multiply. A reference to a definition that is being followed already is fine on its
// own, as in a tree; beside alternatives each step down would double the work.
func bounded(schema json.RawMessage) error {
	if len(schema) > mostSchemaBytes {
		return fmt.Errorf("it has %d bytes, and at most %d are taken", len(schema), mostSchemaBytes)
	}
	var document any
	if err := json.Unmarshal(schema, &document); err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	m := &measure{root: document, sizes: map[string]int{}, open: map[string]bool{}}
	if _, err := m.size(document, 0); err != nil {
		return err
	}
	if m.cyclic && m.alternatives {
		return errCyclic
	}
	return nil
}

// measure counts the values of a schema with its references followed.
type measure struct {
	root  any
	sizes map[string]int
	// open are the references that are being followed.
	open                 map[string]bool
	cyclic, alternatives bool
}

func (m *measure) size(v any, depth int) (int, error) {
	if depth > mostSchemaDepth {
		return 0, fmt.Errorf("it is nested deeper than %d", mostSchemaDepth)
	}
	total := 1
	add := func(v any) error {
		n, err := m.size(v, depth+1)
		if total += n; err == nil && total > mostSchemaNodes {
			err = fmt.Errorf("with its references followed it has more than %d values", mostSchemaNodes)
		}
		return err
	}
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			if err := add(one); err != nil {
				return 0, err
			}
		}
	case map[string]any:
		for name, one := range v {
			switch name {
			case "anyOf", "oneOf", "allOf", "if", "then", "else", "not", "dependentSchemas", "contains", "$dynamicRef":
				m.alternatives = true
			case "$defs", "definitions":
				continue // counted where they are referred to
			}
			if err := add(one); err != nil {
				return 0, err
			}
		}
		if ref, ok := v["$ref"].(string); ok {
			n, err := m.followed(ref, depth)
			if total += n; err == nil && total > mostSchemaNodes {
				err = fmt.Errorf("with its references followed it has more than %d values", mostSchemaNodes)
			}
			return total, err
		}
	}
	return total, nil
}

// followed is the size of what a reference within the document leads to.
func (m *measure) followed(ref string, depth int) (int, error) {
	if m.open[ref] {
		m.cyclic = true
		return 1, nil
	}
	if n, ok := m.sizes[ref]; ok {
		return n, nil
	}
	target, ok := m.find(ref)
	if !ok {
		return 0, fmt.Errorf("its reference %q leads nowhere within it", ref)
	}
	m.open[ref] = true
	n, err := m.size(target, depth+1)
	m.open[ref] = false
	m.sizes[ref] = n
	return n, err
}

func (m *measure) find(ref string) (any, bool) {
	pointer, ok := tool.RefPointer(ref)
	if !ok {
		return nil, false
	}
	at := m.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		object, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]; !ok {
			return nil, false
		}
	}
	return at, true
}
