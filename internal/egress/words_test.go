package egress

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// reasonWords returns the constants of words.go whose names begin with Reason.
func reasonWords(t *testing.T) map[string]string {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "words.go", nil, 0))(t)
	words := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		word := must.Get(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
		words[spec.Names[0].Name] = word
		return true
	})
	if len(words) < 20 {
		t.Fatalf("found %d reasons", len(words))
	}
	return words
}

// TestReasonsAreExplained: each reason has a sentence for models and a row in the
// documentation.
func TestReasonsAreExplained(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/egress-ledger.md"))(t)
	_, ledger, _ := strings.Cut(string(text), "## The ledger")
	for name, word := range reasonWords(t) {
		if causes[word] == "" && word != ReasonUnlisted {
			t.Errorf("%s has no sentence", name)
		}
		if !strings.Contains(ledger, "`"+word+"`") {
			t.Errorf("docs/egress-ledger.md does not explain %s", word)
		}
	}
}

// TestSumsAreExplained: each target is explained once, whether listed or summed up; connections
// without a target are only counted.
func TestSumsAreExplained(t *testing.T) {
	t.Parallel()
	denied := tool.Connection{Host: "x.test", Port: 443, Verdict: VerdictDenied, Reason: ReasonDeniedRule}
	sum, other, rest := denied, denied, denied
	sum.Count, other.Host, other.Count, rest.Host, rest.Port, rest.Count = 3, "y.test", 4, "", 0, 5
	got := Explanations([]tool.Connection{denied, sum, other, rest}, 12, nil)
	want := []string{
		"x.test:443 is a blocked host (policy: process_runner.denied_egress_hosts names it or its address).", "y.test:443 is a blocked host (policy: process_runner.denied_egress_hosts names it or its address).",
		"More was kept from the network: 0 other hosts or reasons, and 12 connections that were not recorded one by one.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
