package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestDocuments: the documents keep their bounds, and their links have targets.
func TestDocuments(t *testing.T) {
	t.Parallel()
	problems := must.Get(CheckDocuments("../.."))(t)
	for _, p := range problems {
		t.Error(p)
	}
}

// TestDocumentProblems: each kind of problem is found, and a good document has none.
func TestDocumentProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, problem string }{
		"good":       {"docs/a.md", "# A\n\nSee [B](#part-two) and [web](https://example.org/x#y).\n\n## Part `two`\n\n| " + strings.Repeat("wide ", 30) + "|\n", ""},
		"long":       {"docs/a.md", strings.Repeat("line\n", guideLines+1), "151 lines"},
		"format":     {"docs/format/a.md", strings.Repeat("line\n", guideLines+1), ""},
		"wide":       {"docs/a.md", strings.Repeat("word ", 21) + "\n", "wider than 100"},
		"wide code":  {"docs/a.md", "```\n" + strings.Repeat("word ", 21) + "\n```\n", ""},
		"no file":    {"docs/a.md", "[x](b.md)\n", "does not exist"},
		"no heading": {"docs/a.md", "# A\n\n[x](#b)\n", "no such heading"},
		"in code":    {"docs/a.md", "```\n[x](b.md)\n```\n", ""},
		"words":      {"docs/format/a.md", strings.Repeat("a b c d e f g h i j\n", writtenWords/10+1), "80010 words"},
		"decisions":  {"RATIONALE.md", strings.Repeat("\n### A decision\n", rationaleItems+1), "61 decisions"},
	} {
		root := t.TempDir()
		file := filepath.Join(root, filepath.FromSlash(c.file))
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(c.text), 0o600))
		problems := must.Get(CheckDocuments(root))(t)
		if got := strings.Join(problems, "; "); !strings.Contains(got, c.problem) || (c.problem == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, c.problem)
		}
	}
}
