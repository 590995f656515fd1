package spake2plus

import (
	"fmt"
	"io"
)

// sealed keeps the struct that embeds it out of every print and log.
type sealed struct{}

// Format prints a constant word instead of secrets, for every verb.
func (sealed) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "spake2plus(hidden)")
}
