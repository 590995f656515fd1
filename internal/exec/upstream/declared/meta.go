package declared

import (
	"strings"

	"palyra/internal/core/lazyregexp"
)

// mostMeta is how many keys of _meta one server may declare.
const mostMeta = 16

// metaForm is that of a key of _meta: an optional prefix of labels, and a name (MCP,
// "General fields").
var metaForm = lazyregexp.New(`^([A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// mostMetaName is the most characters of a key.
const mostMetaName = 200

// checkMeta refuses keys of _meta that no caller may set.
func (s Server) checkMeta() error {
	if len(s.Meta) > mostMeta {
		return invalid("meta", "a server declares at most %d keys of _meta", mostMeta)
	}
	for i, key := range s.Meta {
		switch {
		case !metaForm.MatchString(key) || len(key) > mostMetaName:
			return invalid("meta", "%q is no key of _meta", key).WithRemedy("A key is a name, or a prefix and a name, such as com.example/tenant.")
		case ReservedMeta(key):
			return invalid("meta", "the key %s of _meta is set by the gateway or by the protocol", key)
		}
		for _, other := range s.Meta[:i] {
			if strings.EqualFold(key, other) {
				return invalid("meta", "the keys %s and %s of _meta differ in case at most", other, key)
			}
		}
	}
	return nil
}

// ReservedMeta reports whether a key of _meta is for the protocol or the gateway to
// set: those whose prefix has the label modelcontextprotocol or mcp (of the specification),
// or palyra. progressToken is set by each hop for itself.
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
