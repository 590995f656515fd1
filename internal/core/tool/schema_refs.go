package tool

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"palyra/internal/core/text"
)

// checkReferences refuses schemas whose validation would leave the schema or never end. It
// refuses references that are not JSON Pointers into the schema itself, and base URIs below the
// top level, which would change the meaning of such pointers. It also refuses cycles of
// references that apply to the same value.
func checkReferences(root any) error {
	c := refChecker{root: root, state: map[string]visit{}}
	return c.walk(root, "", true)
}

type visit int

const (
	unseen visit = iota
	open
	done
)

type refChecker struct {
	root  any
	state map[string]visit
}

// sameValueOne and sameValueList are the keywords whose schemas apply to the same value as the
// schema that contains them.
var (
	sameValueOne  = []string{"not", "if", "then", "else"}
	sameValueList = []string{"allOf", "anyOf", "oneOf"}
)

// walk visits every object in the document and checks for cycles from each object with a
// reference. It treats all objects as schemas, including the values of an enum, because a
// property may have the name of any keyword. A constant that looks like an invalid schema is
// therefore refused, which is harmless.
func (c *refChecker) walk(node any, at string, top bool) error {
	switch node := node.(type) {
	case map[string]any:
		if err := refuseKeywords(node, at, top); err != nil {
			return err
		}
		if _, ok := node["$ref"]; ok {
			if err := c.follow(at); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(node)) {
			if err := c.walk(node[key], at+"/"+escapePointer(key), false); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range node {
			if err := c.walk(item, at+"/"+strconv.Itoa(i), false); err != nil {
				return err
			}
		}
	}
	return nil
}

func refuseKeywords(node map[string]any, at string, top bool) error {
	for _, key := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := node[key].(string); ok {
			return fmt.Errorf("%s is not supported (at %q)", key, at)
		}
	}
	if _, ok := node["$id"].(string); ok && !top {
		return fmt.Errorf("$id is only allowed at the top level (at %q)", at)
	}
	if ref, ok := node["$ref"].(string); ok {
		if _, ok := RefPointer(ref); !ok {
			return fmt.Errorf("$ref %q does not point into the schema itself (at %q)", text.Ellipsis(ref, mostShown), at)
		}
	}
	return nil
}

// follow visits, depth first, all schemas that apply to the same value.
func (c *refChecker) follow(at string) error {
	switch c.state[at] {
	case open:
		return fmt.Errorf("the reference at %q leads back to itself", at)
	case done:
		return nil
	}
	c.state[at] = open
	node, err := lookup(c.root, at)
	if err != nil {
		return err
	}
	for _, next := range sameValue(node, at) {
		if err := c.follow(next); err != nil {
			return err
		}
	}
	c.state[at] = done
	return nil
}

func sameValue(node any, at string) []string {
	schema, ok := node.(map[string]any)
	if !ok {
		return nil
	}
	var next []string
	if ref, ok := schema["$ref"].(string); ok {
		if pointer, ok := RefPointer(ref); ok {
			next = append(next, pointer)
		}
	}
	for _, key := range sameValueOne {
		if _, ok := schema[key]; ok {
			next = append(next, at+"/"+key)
		}
	}
	for _, key := range sameValueList {
		list, _ := schema[key].([]any)
		for i := range list {
			next = append(next, at+"/"+key+"/"+strconv.Itoa(i))
		}
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		table, _ := schema[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(table)) {
			next = append(next, at+"/"+key+"/"+escapePointer(name))
		}
	}
	return next
}

// RefPointer returns the JSON Pointer that a reference within a schema leads to, and false for
// any other reference. A pointer in a fragment is percent-encoded (RFC 6901 section 6). Without
// decoding, checks would inspect another location than the validator.
func RefPointer(ref string) (pointer string, ok bool) {
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok || fragment != "" && fragment[0] != '/' {
		return "", false
	}
	pointer, err := url.PathUnescape(fragment)
	return pointer, err == nil
}

var errNoSuchSchema = errors.New("a $ref has no target")

// lookup resolves a JSON Pointer (RFC 6901).
func lookup(root any, pointer string) (any, error) {
	node := root
	if pointer == "" {
		return node, nil
	}
	for _, token := range strings.Split(pointer[1:], "/") {
		token = unescapePointer(token)
		switch holder := node.(type) {
		case map[string]any:
			next, ok := holder[token]
			if !ok {
				return nil, fmt.Errorf("%w: %q", errNoSuchSchema, text.Ellipsis(pointer, mostShown))
			}
			node = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(holder) {
				return nil, fmt.Errorf("%w: %q", errNoSuchSchema, text.Ellipsis(pointer, mostShown))
			}
			node = holder[i]
		default:
			return nil, fmt.Errorf("%w: %q", errNoSuchSchema, text.Ellipsis(pointer, mostShown))
		}
	}
	return node, nil
}

// escapePointer encodes a token of a JSON Pointer (RFC 6901). It escapes "~" first, because the
// escape of "/" contains one.
func escapePointer(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

// unescapePointer decodes a token, in the reverse order.
func unescapePointer(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}
