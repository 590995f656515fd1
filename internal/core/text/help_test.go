package text

import (
	"fmt"
	"testing"
)

// TestHelp: the error for an unknown word suggests the similar name, all names if there are
// few, or the three nearest of many.
func TestHelp(t *testing.T) {
	t.Parallel()
	few := []string{"list", "show", "add"}
	var many []string
	for n := range 98 {
		many = append(many, fmt.Sprintf("claude/Tool%d", n))
	}
	many = append(many, "fs.read", "process.run")
	for _, c := range []struct {
		word  string
		known []string
		want  string
	}{
		{"shwo", few, "Did you mean show?"},
		{"frobnicate", few, "Use one of: list, show, add."},
		{"proces.run", many, "Did you mean process.run?"},
		{"process", many, "The nearest of 100 are: process.run, fs.read, claude/Tool0."},
		{"x", nil, "There is none."},
	} {
		if got := NearestHelp(c.word, c.known); got != c.want {
			t.Errorf("Help(%q) = %q, want %q", c.word, got, c.want)
		}
	}
}
