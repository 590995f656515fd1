package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

// maxInput is the API's limit on a tool's input in bytes.
const maxInput = 1 << 20

// givenInput checks how the input of a call was given and reads --input.
func (a *app) givenInput(flag string, members []string) ([]byte, error) {
	if flag == "-" && a.streams.InTerminal {
		a.say("reading the input from the terminal; end it with Ctrl-D")
	}
	if flag != "" && len(members) > 0 {
		return nil, usage("--input and key=value exclude each other")
	}
	if err := checkMembers(members); err != nil {
		return nil, err
	}
	return a.readInput(flag)
}

// readInput reads --input: JSON, @FILE, or - for stdin. What it means is for
// the gateway to judge; only the size is checked here.
func (a *app) readInput(arg string) ([]byte, error) {
	var data []byte
	var err error
	switch {
	case arg == "":
		return nil, nil
	case arg == "-":
		data, err = io.ReadAll(io.LimitReader(a.in, maxInput+1))
	case strings.HasPrefix(arg, "@"):
		data, err = readAtMost(arg[1:], maxInput+1)
	default:
		data = []byte(arg)
	}
	if err != nil {
		return nil, usage("reading the input: %w", err)
	}
	return data, checkSize(data)
}

func checkSize(input []byte) error {
	if len(input) > maxInput {
		return reason.Errorf(reason.InputTooLarge, "the input is larger than %d bytes", maxInput)
	}
	return nil
}

// readFile reads a file or, for -, stdin; what is longer than limit is refused.
func (a *app) readFile(path string, limit int64) ([]byte, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(a.in, limit+1))
	} else {
		data, err = readAtMost(path, limit+1)
	}
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, err
}

func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// checkMembers refuses arguments that are no key=value.
func checkMembers(members []string) error {
	for _, m := range members {
		if key, _, ok := strings.Cut(m, "="); !ok || strings.TrimSuffix(key, ":") == "" {
			return usage("%q is not key=value", m).WithRemedy("Write members of the input as key=value or key:=JSON, or use --input.")
		}
	}
	return nil
}

// inputFrom builds the input from key=value and key:=JSON. The schema of the
// tool says how a value is read; without one it is a string.
func inputFrom(members []string, schema map[string]property) ([]byte, error) {
	var keys []string
	values := map[string][]string{}
	raw := map[string]json.RawMessage{}
	for _, m := range members {
		key, value, _ := strings.Cut(m, "=")
		name, isJSON := strings.CutSuffix(key, ":")
		_, seenRaw := raw[name]
		_, seenText := values[name]
		if seenRaw || isJSON && seenText {
			return nil, reason.Errorf(reason.DuplicateKey, "%q is given twice", name)
		}
		if !seenText {
			keys = append(keys, name)
		}
		if isJSON {
			raw[name] = json.RawMessage(value)
			continue
		}
		values[name] = append(values[name], value)
	}
	out := object{}
	for _, name := range keys {
		value, ok := raw[name]
		if !ok {
			read, err := schema[name].read(name, values[name])
			if err != nil {
				return nil, err
			}
			value = read
		}
		if !json.Valid(value) {
			return nil, usage("%s: %q is not JSON", name, value)
		}
		out = append(out, member{name, value})
	}
	input, err := marshal(out)
	if err != nil {
		return nil, usage("building the input: %w", err)
	}
	return input, checkSize(input)
}

// property is what a schema says of one member of the input.
type property struct {
	Type  jsonType  `json:"type"`
	Items *property `json:"items"`
}

// jsonType is the type keyword; of several types only "string or not" counts.
type jsonType string

// UnmarshalJSON reads one type or a list of types.
func (t *jsonType) UnmarshalJSON(text []byte) error {
	var list []string
	if json.Unmarshal(text, &list) == nil {
		for _, name := range list {
			if *t == "" || name == "string" {
				*t = jsonType(name)
			}
		}
		return nil
	}
	return json.Unmarshal(text, (*string)(t))
}

// read turns the texts given for a member into its JSON value.
func (p property) read(name string, texts []string) (json.RawMessage, error) {
	if p.Type == "array" && (len(texts) > 1 || !strings.HasPrefix(strings.TrimSpace(texts[0]), "[")) {
		items := make([]json.RawMessage, len(texts))
		for i, text := range texts {
			var item property
			if p.Items != nil {
				item = *p.Items
			}
			value, err := item.read(name, []string{text})
			if err != nil {
				return nil, err
			}
			items[i] = value
		}
		return marshal(items)
	}
	if len(texts) > 1 {
		return nil, reason.Errorf(reason.DuplicateKey, "%q is given twice, and is no list", name)
	}
	switch p.Type {
	case "", "string":
		return marshal(texts[0])
	}
	if !json.Valid([]byte(texts[0])) {
		return nil, usage("%s: %q is not of type %s", name, texts[0], p.Type)
	}
	return json.RawMessage(texts[0]), nil
}

// schemaOf returns the properties of a tool's input schema; nil when it cannot
// be had, and then the gateway will say what is wrong.
func (g *gateway) schemaOf(ctx context.Context, name string) map[string]property {
	reply, err := g.calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
	if err != nil {
		return nil
	}
	for _, t := range reply.GetTools() {
		if t.GetName() != name {
			continue
		}
		var schema struct {
			Properties map[string]property `json:"properties"`
		}
		if json.Unmarshal(t.GetInputSchemaJson(), &schema) == nil {
			return schema.Properties
		}
	}
	return nil
}
