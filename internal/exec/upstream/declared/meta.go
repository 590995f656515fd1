package declared

import (
	"strings"

	"palyra/internal/core/lazyregexp"
)

// mostMeta is the maximum number of _meta keys that a server may declare.
const mostMeta = 16

// metaForm is the form of a _meta key: an optional prefix of labels, and a name (MCP, "General
// fields").
var metaForm = lazyregexp.New(`^([A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// mostMetaName is the maximum length of a key in characters.
const mostMetaName = 200

// checkMeta returns an error for a _meta key that callers must not set.
func (s Server) checkMeta() error {
	if len(s.Meta) > mostMeta {
		return invalid("meta", "a server declares at most %d keys of _meta", mostMeta)
	}
	for i, key := range s.Meta {
		switch {
		case !metaForm.MatchString(key) || len(key) > mostMetaName:
			return invalid("meta", "%q is not a valid key of _meta", key).WithRemedy("Use a name, or a prefix and a name, such as com.example/tenant.")
		case ReservedMeta(key):
			return invalid("meta", "the key %s of _meta is set by the gateway or by the protocol", key)
		}
		for _, other := range s.Meta[:i] {
			if strings.EqualFold(key, other) {
				return invalid("meta", "the keys %s and %s of _meta differ only in case", other, key)
			}
		}
	}
	return nil
}

// ReservedMeta reports whether only the protocol or the gateway may set a _meta key. These are
// the keys whose prefix has the label modelcontextprotocol or mcp (of the specification), or
// palyra. Each hop sets its own progressToken.
func ReservedMeta(key string) bool {
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
