package upstream

// everyKey matches all keys, for a _meta that is not forwarded.
func everyKey(string) bool { return true }

// strip removes keys from every _meta of a result or an answer. From a server's result it
// removes the reserved keys: a server must not impersonate the gateway, or send protocol keys
// to a client of another revision. From a client's answer it removes all keys, because the
// approver of the question has not seen them.
func strip(v any, drop func(key string) bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			strip(one, drop)
		}
	case map[string]any:
		if meta, ok := v["_meta"].(map[string]any); ok {
			for key := range meta {
				if drop(key) {
					delete(meta, key)
				}
			}
			if len(meta) == 0 {
				delete(v, "_meta")
			}
		}
		for name, one := range v {
			if name != "structuredContent" { // this is data of the tool, even if it has a key of that name
				strip(one, drop)
			}
		}
	}
}
