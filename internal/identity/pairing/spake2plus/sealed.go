package spake2plus

import (
	"fmt"
	"io"
)

// sealed keeps what it is embedded in out of every print and log.
type sealed struct{}

// Format prints a word instead of secrets, whatever the verb.
func (sealed) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "spake2plus(hidden)")
}
