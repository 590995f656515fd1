package upstream

import (
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/reason"
)

// metaArgument is the argument with the keys of _meta that a server declares. As an argument
// they are judged, shown, bound and recorded; the _meta of the caller itself is passed to no
// server.
const metaArgument = "_meta"

// withMeta is the input schema of a tool whose server declares keys of _meta: it has them
// as an argument. A schema that has an argument of that name already is refused.
func withMeta(schema any, keys []string) (any, error) {
	if len(keys) == 0 {
		return schema, nil
	}
	said, ok := schema.(map[string]any)
	if !ok {
		return nil, reason.Errorf(reason.InvalidInput, "the schema of the tool is no object, which could take the declared keys of _meta")
	}
	properties, _ := said["properties"].(map[string]any)
	if _, taken := properties[metaArgument]; taken {
		return nil, reason.Errorf(reason.InvalidInput, "the tool has an argument %s of its own, and its server declares keys of _meta", metaArgument).
			WithRemedy("Add the server without --meta.")
	}
	declared := make(map[string]any, len(keys))
	for _, key := range keys {
		// Policy reads a string as it is; it would read a value of any type as its JSON.
		declared[key] = map[string]any{"type": "string"}
	}
	extended, more := maps.Clone(said), map[string]any{metaArgument: map[string]any{
		"type": "object", "properties": declared, "additionalProperties": false,
		"description": "Keys of _meta, each a string, that the upstream server gets with the call.",
	}}
	maps.Copy(more, properties)
	extended["properties"] = more
	return extended, nil
}

// takeMeta splits what the server gets as _meta off the arguments of a call.
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
