package ask

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// MaxInput is the API's limit on a tool's input in bytes.
const MaxInput = 1 << 20

// GivenInput checks the flags and arguments for the input of a call, and reads --input.
func GivenInput(a *client.App, flag string, members []string) ([]byte, error) {
	if flag == "-" && a.InTerminal {
		a.Say("reading the input from the terminal; end it with Ctrl-D")
	}
	if flag != "" && len(members) > 0 {
		return nil, command.Usage("--input and key=value exclude each other")
	}
	if err := checkMembers(members); err != nil {
		return nil, err
	}
	return readInput(a, flag)
}

// readInput reads --input: JSON, @FILE, or - for stdin. Only the size is checked here; the gateway
// validates the content.
func readInput(a *client.App, arg string) ([]byte, error) {
	var data []byte
	var err error
	switch {
	case arg == "":
		return nil, nil
	case arg == "-":
		data, err = io.ReadAll(io.LimitReader(a.In, MaxInput+1))
	case strings.HasPrefix(arg, "@"):
		data, err = command.ReadAtMost(arg[1:], MaxInput+1)
	default:
		data = []byte(arg)
	}
	if err != nil {
		return nil, command.Usage("reading the input: %w", err)
	}
	return data, checkSize(data)
}

func checkSize(input []byte) error {
	if len(input) > MaxInput {
		return reason.Errorf(reason.InputTooLarge, "the input is larger than %d bytes", MaxInput)
	}
	return nil
}

// checkMembers refuses arguments that are not key=value.
func checkMembers(members []string) error {
	for _, m := range members {
		if key, _, ok := strings.Cut(m, "="); !ok || strings.TrimSuffix(key, ":") == "" {
			return command.Usage("%q is not key=value", m).WithRemedy("Write members of the input as key=value or key:=JSON, or use --input.")
		}
	}
	return nil
}

// inputFrom builds the input from key=value and key:=JSON. The tool's schema determines the type of
// a value; without one it is a string.
func inputFrom(members []string, schema map[string]Property) ([]byte, error) {
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
	out := printer.Object{}
	for _, name := range keys {
		value, ok := raw[name]
		if !ok {
			read, err := schema[name].Read(name, values[name])
			if err != nil {
				return nil, err
			}
			value = read
		}
		if !json.Valid(value) {
			return nil, command.Usage("%s: %q is not JSON", name, value)
		}
		out = append(out, printer.Member{name, value})
	}
	input, err := printer.Marshal(out)
	if err != nil {
		return nil, command.Usage("building the input: %w", err)
	}
	return input, checkSize(input)
}

// Property is a schema's description of one member of the input.
type Property struct {
	Type  JSONType  `json:"type"`
	Items *Property `json:"items"`
}

// JSONType is the type keyword; for several types only "string or not" matters.
type JSONType string

// UnmarshalJSON reads one type or a list of types.
func (t *JSONType) UnmarshalJSON(text []byte) error {
	var list []string
	if json.Unmarshal(text, &list) == nil {
		for _, name := range list {
			if *t == "" || name == "string" {
				*t = JSONType(name)
			}
		}
		return nil
	}
	return json.Unmarshal(text, (*string)(t))
}

// Read converts the texts of a member to its JSON value.
func (p Property) Read(name string, texts []string) (json.RawMessage, error) {
	if p.Type == "array" && (len(texts) > 1 || !strings.HasPrefix(strings.TrimSpace(texts[0]), "[")) {
		items := make([]json.RawMessage, len(texts))
		for i, text := range texts {
			var item Property
			if p.Items != nil {
				item = *p.Items
			}
			value, err := item.Read(name, []string{text})
			if err != nil {
				return nil, err
			}
			items[i] = value
		}
		return printer.Marshal(items)
	}
	if len(texts) > 1 && p.Type == "" {
		return printer.Marshal(texts) // the gateway reports what is wrong with an unknown member
	}
	if len(texts) > 1 {
		return nil, reason.Errorf(reason.DuplicateKey, "%q is specified twice but is not a list", name)
	}
	switch p.Type {
	case "", "string":
		return printer.Marshal(texts[0])
	}
	if !json.Valid([]byte(texts[0])) {
		return nil, command.Usage("%s: %q is not of type %s", name, texts[0], p.Type)
	}
	return json.RawMessage(texts[0]), nil
}

// schema contains the used parts of a tool's input schema.
type schema struct {
	Properties map[string]Property `json:"properties"`
	Required   []string            `json:"required"`

	takesWorkspace bool
}

// schemaOf returns a tool's input schema, also of a hidden tool that the caller may list. It is
// empty for a tool that is not listed, and for a caller that may not list tools: the gateway then
// reports the error. An unreachable gateway is an error, because without a schema the arguments
// would be read incorrectly.
func schemaOf(ctx context.Context, g *client.Gateway, name string) (schema, error) {
	reply, err := g.Calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
	if err != nil {
		if client.Explain(nil, err).Code == reason.PermissionDenied {
			return schema{}, nil
		}
		return schema{}, err
	}
	tools := reply.GetTools()
	for _, h := range reply.GetHidden() {
		tools = append(tools, h.GetTool())
	}
	for _, t := range tools {
		var s schema
		if t.GetName() == name && json.Unmarshal(t.GetInputSchemaJson(), &s) == nil {
			s.takesWorkspace = tool.Descriptor{Executor: tool.Executor(t.GetExecutor()), InputSchema: t.GetInputSchemaJson()}.TakesWorkspace()
			return s, nil
		}
	}
	return schema{}, nil
}

// NewKey returns a new idempotency key.
func NewKey() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // crypto/rand.Read never fails
	return "cli-" + hex.EncodeToString(raw)
}
