package upstream

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// contentTypes are the content types that the library accepts. The library rejects a result with
// any other type.
var contentTypes = []string{"text", "image", "audio", "resource_link", "resource", "tool_use", "tool_result"}

// contentKey is the _meta key that carries content of other types through the library, on an
// empty text content. The key is reserved: it is removed from anything that a server sends.
const contentKey = "palyra.dev/content"

// wrapContent wraps content of types that the library does not accept; unwrapContent reverses it.
// A message without such content is returned unchanged.
func wrapContent(message []byte) []byte {
	if !mayWrap(message) {
		return message
	}
	var fields, result map[string]json.RawMessage
	if json.Unmarshal(message, &fields) != nil || json.Unmarshal(fields["result"], &result) != nil {
		return message // the library reports the error
	}
	changed := wrapList(result, "content", wrapOne)
	if wrapList(result, "tools", replaceFaulty) {
		changed = true
	}
	if wrapList(result, "messages", func(one json.RawMessage) (json.RawMessage, bool) {
		var said map[string]json.RawMessage
		if json.Unmarshal(one, &said) != nil {
			return nil, false
		}
		content, changed := wrapOne(said["content"])
		if !changed {
			return nil, false
		}
		said["content"] = content
		return encoded(said)
	}) {
		changed = true
	}
	if !changed {
		return message
	}
	whole, ok := encoded(result)
	if !ok {
		return message
	}
	fields["result"] = whole
	if whole, ok = encoded(fields); !ok {
		return message
	}
	return whole
}

func encoded(v any) (json.RawMessage, bool) {
	text, err := json.Marshal(v)
	return text, err == nil
}

// mayWrap reports whether a message may have content to wrap. It avoids decoding most messages
// twice. Names can be written with JSON escapes, so a backslash counts as a match.
func mayWrap(message []byte) bool {
	if bytes.Contains(message, []byte(`\u`)) || bytes.Contains(message, []byte(contentKey)) || bytes.Contains(message, []byte(`"tools"`)) {
		return true
	}
	if !bytes.Contains(message, []byte(`"content"`)) {
		return false
	}
	for rest := message; ; {
		_, after, found := bytes.Cut(rest, []byte(`"type"`))
		if !found {
			return false
		}
		rest = after
		value := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(after, " \t\r\n"), []byte(":")), " \t\r\n")
		if !slices.ContainsFunc(contentTypes, func(kind string) bool { return bytes.HasPrefix(value, []byte(`"`+kind+`"`)) }) {
			return true
		}
	}
}

// wrapList replaces the entries of a list that wrap changes.
func wrapList(result map[string]json.RawMessage, name string, wrap func(json.RawMessage) (json.RawMessage, bool)) (changed bool) {
	var list []json.RawMessage
	if json.Unmarshal(result[name], &list) != nil {
		return false
	}
	for i, one := range list {
		if wrapped, is := wrap(one); is {
			list[i], changed = wrapped, true
		}
	}
	if whole, ok := encoded(list); changed && ok {
		result[name] = whole
	}
	return changed
}

// wrapOne wraps content of an unknown type. It removes the reserved key from all other content.
func wrapOne(content json.RawMessage) (json.RawMessage, bool) {
	var fields, meta map[string]json.RawMessage
	var kind string
	if json.Unmarshal(content, &fields) != nil || json.Unmarshal(fields["type"], &kind) != nil || kind == "" {
		return nil, false
	}
	if !slices.Contains(contentTypes, kind) {
		return encoded(map[string]any{"type": "text", "text": "", "_meta": map[string]any{contentKey: content}})
	}
	if json.Unmarshal(fields["_meta"], &meta) != nil || meta[contentKey] == nil {
		return nil, false
	}
	delete(meta, contentKey)
	rest, ok := encoded(meta)
	if fields["_meta"] = rest; !ok {
		return nil, false
	}
	return encoded(fields)
}

// faultyKey is the _meta key of the placeholder for an unreadable tool. Without the placeholder
// the library would reject the whole page.
const faultyKey = "palyra.dev/faulty"

// replaceFaulty replaces an unreadable tool by a placeholder, which is later skipped.
func replaceFaulty(one json.RawMessage) (json.RawMessage, bool) {
	var read *mcp.Tool
	if json.Unmarshal(one, &read) == nil {
		return nil, false
	}
	var named struct{ Name any }
	_ = json.Unmarshal(one, &named) // the name is optional
	name, _ := named.Name.(string)
	return encoded(map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}, "_meta": map[string]any{faultyKey: true}})
}

// unwrapContent restores the wrapped content of a result.
func unwrapContent(result map[string]any) {
	list, _ := result["content"].([]any)
	for i := range list {
		list[i] = unwrapped(list[i])
	}
	messages, _ := result["messages"].([]any)
	for _, one := range messages {
		if said, ok := one.(map[string]any); ok {
			said["content"] = unwrapped(said["content"])
		}
	}
}

func unwrapped(content any) any {
	fields, _ := content.(map[string]any)
	meta, _ := fields["_meta"].(map[string]any)
	if original, ok := meta[contentKey].(map[string]any); ok {
		return original
	}
	return content
}
