// Package args converts the arguments of a tool to Cedar. It derives a type from the tool's
// JSON Schema, and converts arguments to values of that type.
package args

// Kind is the Cedar form of a position in a tool's input.
type Kind int

// The kinds.
const (
	KindOpaque Kind = iota // a String: the canonical JSON of the value
	KindString
	KindLong
	KindBool
	KindSet
	KindRecord
)

// Type defines how the JSON at one position of a tool's input becomes a Cedar value.
type Type struct {
	Kind Kind
	// Choices are the allowed texts of a string, nil for any.
	Choices []string
	// elem is the type of a set's elements.
	elem *Type
	// Fields are the declared properties of a record.
	Fields map[string]Field
}

// Field is a property of a record.
type Field struct {
	Typ      *Type
	Required bool
}
