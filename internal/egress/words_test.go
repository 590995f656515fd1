package egress

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// reasonWords are the constants of words.go whose names begin with Reason.
func reasonWords(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "words.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	words := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		words[spec.Names[0].Name] = word
		return true
	})
	if len(words) < 20 {
		t.Fatalf("found %d reasons", len(words))
	}
	return words
}

// TestReasonsAreExplained: each has a sentence for models and a row for people.
func TestReasonsAreExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/egress.md")
	if err != nil {
		t.Fatal(err)
	}
	_, ledger, _ := strings.Cut(string(text), "## The ledger")
	for name, word := range reasonWords(t) {
		if causes[word] == "" && word != ReasonUnlisted {
			t.Errorf("%s has no sentence", name)
		}
		if !strings.Contains(ledger, "`"+word+"`") {
			t.Errorf("docs/egress.md does not explain %s", word)
		}
	}
}
