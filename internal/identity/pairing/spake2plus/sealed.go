package spake2plus

import (
	"fmt"
	"io"
)

// sealed prevents the embedding struct from being printed or logged.
type sealed struct{}

// Format prints a constant word instead of secrets, for every verb.
func (sealed) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "spake2plus(hidden)")
}
