package call

import (
	"slices"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/core/tool"
	"palyra/internal/core/unified"
)

// TestPromptFiles covers which files a reader must be allowed to read to see a prompt. Prompts
// with unknown files are visible only to approvers.
func TestPromptFiles(t *testing.T) {
	t.Parallel()
	diff := func(old, new string) string {
		return unified.File{OldPath: old, NewPath: new, Old: []byte("a\n"), New: []byte("b\n")}.Diff()
	}
	for name, c := range map[string]struct {
		diff     string
		operands []tool.Operand
		want     []string
		known    bool
	}{
		"nothing":                     {known: true},
		"a file":                      {diff: diff("a.txt", "a.txt"), want: []string{"a.txt"}, known: true},
		"both names of a file":        {diff: diff("a.txt", "b.txt"), want: []string{"a.txt", "b.txt"}, known: true},
		"several files":               {diff: diff("a", "a") + diff("b", "b"), want: []string{"a", "b"}, known: true},
		"an operand":                  {operands: []tool.Operand{{Path: "Makefile"}}, want: []string{"Makefile"}, known: true},
		"a diff of another form":      {diff: "- password\n+ x\n"},
		"sizes of another file":       {diff: diff("a", "a") + "# .env: 17 bytes, then 4 bytes; not shown\n", want: []string{"a"}},
		"a name that may be escaped":  {diff: diff(`a\b`, `a\b`), want: []string{`a\b`}},
		"an operand that may be, too": {operands: []tool.Operand{{Path: `a\u202eb`}}, want: []string{`a\u202eb`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, known := promptFiles(&approval.Prompt{Diff: c.diff, Runs: approval.Execution{Operands: c.operands}})
			if !slices.Equal(got, c.want) || known != c.known {
				t.Errorf("got %q, %v, want %q, %v", got, known, c.want, c.known)
			}
		})
	}
}
