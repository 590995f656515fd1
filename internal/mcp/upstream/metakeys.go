package upstream

import "strings"

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
