package event_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
)

// declared reads the codes from the source, in order.
func declared(t *testing.T) []event.Code {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "event.go", nil, 0))(t)
	var codes []event.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != "Code" {
			return true
		}
		text := must.Get(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
		codes = append(codes, event.Code(text))
		return true
	})
	return codes
}

// TestCatalogIsComplete compares the constants with the catalog, and reports rows without a
// text.
func TestCatalogIsComplete(t *testing.T) {
	t.Parallel()
	codes := declared(t)
	if len(codes) < 20 {
		t.Fatalf("only %d codes were found in the source", len(codes))
	}
	if !slices.Equal(codes, event.Codes) {
		t.Errorf("Codes is %v\nwant the constants in their order: %v", event.Codes, codes)
	}
	for _, section := range event.Catalog {
		for _, row := range section.Rows {
			if row.Word == "" || row.About == "" || row.Payload == "" || row.Code.Words() != row.Word {
				t.Errorf("%s lacks a text: %+v", row.Code, row)
			}
		}
	}
	if got := event.Code("PAL-X000").Words(); got != "" {
		t.Errorf("an unknown code has the word %q", got)
	}
}

func TestCodesAreDistinctAndWellFormed(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^PAL-[DAGXRSIPJUHNK][1-9][0-9]{2}$`)
	seen := make(map[event.Code]bool)
	for _, code := range event.Codes {
		if !form.MatchString(string(code)) {
			t.Errorf("%s is not PAL-, the letter of a family and three digits", code)
		}
		if seen[code] {
			t.Errorf("%s names two kinds of event", code)
		}
		seen[code] = true
	}
}
