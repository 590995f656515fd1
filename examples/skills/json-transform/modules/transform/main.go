// Command transform applies steps to a JSON value. It uses no grant.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

type input struct {
	Value any    `json:"value"`
	Steps []step `json:"steps"`
}

type step struct {
	Do    string `json:"do"`
	At    string `json:"at"`
	Value any    `json:"value"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(from io.Reader, to io.Writer) error {
	d := json.NewDecoder(from)
	d.UseNumber()
	var in input
	if err := d.Decode(&in); err != nil {
		return fmt.Errorf("reading the input: %w", err)
	}
	value := in.Value
	for i, s := range in.Steps {
		var err error
		if value, err = apply(value, s); err != nil {
			return fmt.Errorf("step %d, %s %q: %w", i+1, s.Do, s.At, err)
		}
	}
	return json.NewEncoder(to).Encode(map[string]any{"value": value})
}

func apply(value any, s step) (any, error) {
	path, err := parse(s.At)
	if err != nil {
		return nil, err
	}
	switch s.Do {
	case "get":
		return get(value, path)
	case "count":
		at, err := get(value, path)
		if err != nil {
			return nil, err
		}
		return count(at)
	case "set":
		return edit(value, path, func(any, bool) (any, bool, error) { return s.Value, true, nil })
	case "remove":
		return edit(value, path, func(_ any, there bool) (any, bool, error) {
			if !there {
				return nil, false, errNothing
			}
			return nil, false, nil
		})
	}
	return nil, errors.New("the step is unknown")
}

var errNothing = errors.New("the place does not exist")

// parse parses a JSON Pointer.
func parse(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if !strings.HasPrefix(pointer, "/") {
		return nil, errors.New("a JSON Pointer must begin with /")
	}
	parts := strings.Split(pointer[1:], "/")
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts, nil
}

func get(value any, path []string) (any, error) {
	for _, name := range path {
		switch in := value.(type) {
		case map[string]any:
			inner, there := in[name]
			if !there {
				return nil, errNothing
			}
			value = inner
		case []any:
			i, err := index(name, len(in)-1)
			if err != nil {
				return nil, err
			}
			value = in[i]
		default:
			return nil, errNothing
		}
	}
	return value, nil
}

// index parses the index of an element, up to most.
func index(name string, most int) (int, error) {
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i > most || strconv.Itoa(i) != name {
		return 0, errNothing
	}
	return i, nil
}

// edit replaces the value at a place by the result of change, or removes it. Each level on the
// path is copied, so that the original value does not change.
func edit(value any, path []string, change func(old any, there bool) (any, bool, error)) (any, error) {
	if len(path) == 0 {
		out, _, err := change(value, true)
		return out, err
	}
	name, rest := path[0], path[1:]
	within := change
	if len(rest) > 0 {
		within = func(old any, there bool) (any, bool, error) {
			if !there {
				return nil, false, errNothing
			}
			out, err := edit(old, rest, change)
			return out, true, err
		}
	}
	switch in := value.(type) {
	case map[string]any:
		old, there := in[name]
		out, keep, err := within(old, there)
		if err != nil {
			return nil, err
		}
		in = maps.Clone(in)
		delete(in, name)
		if keep {
			in[name] = out
		}
		return in, nil
	case []any:
		return editList(in, name, within)
	}
	return nil, errNothing
}

func editList(in []any, name string, within func(any, bool) (any, bool, error)) (any, error) {
	if name == "-" { // append after the last element
		name = strconv.Itoa(len(in))
	}
	i, err := index(name, len(in))
	if err != nil {
		return nil, err
	}
	var old any
	if i < len(in) {
		old = in[i]
	}
	out, keep, err := within(old, i < len(in))
	switch {
	case err != nil:
		return nil, err
	case i == len(in):
		return append(slices.Clone(in), out), nil
	case !keep:
		return slices.Delete(slices.Clone(in), i, i+1), nil
	}
	in = slices.Clone(in)
	in[i] = out
	return in, nil
}

func count(value any) (any, error) {
	switch in := value.(type) {
	case map[string]any:
		return len(in), nil
	case []any:
		return len(in), nil
	}
	return nil, errors.New("the value is neither an object nor an array")
}
