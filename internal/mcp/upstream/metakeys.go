package upstream

import (
	"bytes"
	"encoding/json"
	"strings"
)

// reserved reports whether a key of _meta in a result is for the protocol or the gateway to
// set: those whose prefix has the label modelcontextprotocol or mcp (of the specification),
// or palyra. progressToken is set by each hop for itself.
func reserved(key string) bool {
	prefix, _, prefixed := strings.Cut(key, "/")
	if !prefixed {
		return key == "progressToken"
	}
	for label := range strings.SplitSeq(strings.ToLower(prefix), ".") {
		if label == "modelcontextprotocol" || label == "mcp" || label == "palyra" {
			return true
		}
	}
	return false
}

// withoutMeta is an answer of a client without the _meta of any of its objects: nobody who
// consented to the question has seen it.
func withoutMeta(text json.RawMessage) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var answer any
	if err := decoder.Decode(&answer); err != nil {
		return nil, err
	}
	dropMeta(answer)
	return json.Marshal(answer)
}

func dropMeta(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			dropMeta(one)
		}
	case map[string]any:
		delete(v, "_meta")
		for _, one := range v {
			dropMeta(one)
		}
	}
}

// strip takes reserved keys out of every _meta of a result: a server must not speak for
// the gateway, or for the protocol to a client of another revision.
func strip(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			strip(one)
		}
	case map[string]any:
		if meta, ok := v["_meta"].(map[string]any); ok {
			for key := range meta {
				if reserved(key) {
					delete(meta, key)
				}
			}
			if len(meta) == 0 {
				delete(v, "_meta")
			}
		}
		for name, one := range v {
			if name != "structuredContent" { // data of the tool's own, whatever it is called
				strip(one)
			}
		}
	}
}
