package telemetry

import (
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"palyra/internal/core/canonical"
)

// The payloads of a call have thousands of bytes, but metrics need only a few values. These
// functions find those values and decode nothing else.

// each calls fn with the members of an object, and reports whether it is an object. fn may receive
// a member twice.
func each(object []byte, fn func(name, value []byte)) bool {
	if canonical.Members(object, fn) {
		return true
	}
	var members map[string]jsontext.Value
	if jsonv2.Unmarshal(object, &members) != nil || members == nil {
		return false
	}
	for name, value := range members {
		fn([]byte(name), value)
	}
	return true
}

// within is each for an object that is a member of an object. A missing member counts as empty.
func within(object []byte, member string, fn func(name, value []byte)) bool {
	inner := []byte("{}")
	return each(object, func(name, value []byte) {
		if string(name) == member {
			inner = value
		}
	}) && each(inner, fn)
}

// textOf returns a string member of an object, "" if it has none.
func textOf(object []byte, member string) (out string) {
	each(object, func(name, value []byte) {
		if string(name) == member {
			out = text(value)
		}
	})
	return out
}

// text returns a JSON string, "" for another value.
func text(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	said, err := canonical.String(value)
	if err != nil {
		return ""
	}
	return said
}
