package upstream

// everyKey is for a _meta that is not passed on.
func everyKey(string) bool { return true }

// strip removes keys from every _meta of a result or of an answer. Of a result these are the
// reserved keys: a server must not speak for the gateway, or for the protocol to a client of
// another revision. Of a client's answer to a server these are all keys: the person who agreed
// to the question has not seen them.
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
			if name != "structuredContent" { // data of the tool's own, whatever it is called
				strip(one, drop)
			}
		}
	}
}
