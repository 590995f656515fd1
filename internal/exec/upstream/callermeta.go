package upstream

import (
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/reason"
)

// metaArgument is the argument with the _meta keys that a server declares. As an argument they
// are subject to policy, displayed, bound and recorded. The _meta of the caller is never
// forwarded to a server.
const metaArgument = "_meta"

// withMeta adds the declared _meta keys to the input schema of a tool, as an argument. It fails
// if the schema already has an argument of that name.
func withMeta(schema any, keys []string) (any, error) {
	if len(keys) == 0 {
		return schema, nil
	}
	schemaObject, ok := schema.(map[string]any)
	if !ok {
		return nil, reason.Errorf(reason.InvalidInput, "the schema of the tool is not an object, so the declared keys of _meta cannot be added to it")
	}
	properties, _ := schemaObject["properties"].(map[string]any)
	if _, taken := properties[metaArgument]; taken {
		return nil, reason.Errorf(reason.InvalidInput, "the tool already has an argument %s, which conflicts with the declared keys of _meta", metaArgument).
			WithRemedy("Add the server without --meta.")
	}
	declared := make(map[string]any, len(keys))
	for _, key := range keys {
		// Policies read a string unchanged; a value of any other type would be compared as its
		// JSON text.
		declared[key] = map[string]any{"type": "string"}
	}
	extended, more := maps.Clone(schemaObject), map[string]any{metaArgument: map[string]any{
		"type": "object", "properties": declared, "additionalProperties": false,
		"description": "Keys of _meta, each a string, that the upstream server gets with the call.",
	}}
	maps.Copy(more, properties)
	extended["properties"] = more
	return extended, nil
}

// takeMeta separates the argument with _meta keys from the other arguments of a call.
func (t proxied) takeMeta(input json.RawMessage) (json.RawMessage, mcp.Meta, error) {
	if len(t.server.Meta) == 0 || t.ask != nil || len(input) == 0 {
		return input, nil, nil
	}
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal(input, &arguments); err != nil {
		return nil, nil, reason.Errorf(reason.InvalidInput, "reading the arguments: %w", err)
	}
	given, ok := arguments[metaArgument]
	if !ok {
		return input, nil, nil
	}
	var meta mcp.Meta
	if err := json.Unmarshal(given, &meta); err != nil {
		return nil, nil, reason.Errorf(reason.InvalidInput, "reading the argument %s: %w", metaArgument, err)
	}
	delete(arguments, metaArgument)
	rest, err := json.Marshal(arguments)
	return rest, meta, err
}
