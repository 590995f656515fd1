package reason_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// declared returns the codes in the source, so that a code without a row is found.
func declared(t *testing.T) map[string]reason.Code {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0))(t)
	codes := make(map[string]reason.Code)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != "Code" {
			return true
		}
		for i, name := range spec.Names {
			text := must.Get(strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value))(t)
			codes[name.Name] = reason.Code(text)
		}
		return true
	})
	if len(codes) < 20 {
		t.Fatalf("only %d codes were found in the source", len(codes))
	}
	return codes
}

var codeForm = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)

func TestEachCodeHasOneRow(t *testing.T) {
	t.Parallel()
	rows := make(map[reason.Code]int)
	for _, row := range reason.Table {
		rows[row.Code]++
	}
	seen := make(map[reason.Code]string)
	for name, code := range declared(t) {
		if rows[code] != 1 {
			t.Errorf("%s has %d rows, want 1", code, rows[code])
		}
		if other := seen[code]; other != "" {
			t.Errorf("%s and %s are both %s", name, other, code)
		}
		seen[code] = name
		if !codeForm.MatchString(string(code)) {
			t.Errorf("%s is not upper snake case, which API error details want", code)
		}
		delete(rows, code)
	}
	for code := range rows {
		t.Errorf("row %s has no constant", code)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	known := []int{
		reason.ExitFailure, reason.ExitUsage, reason.ExitPolicyDenied, reason.ExitDenied, reason.ExitExpired,
		reason.ExitNotConnected, reason.ExitConflict, reason.ExitVerification, reason.ExitSandbox, reason.ExitUnproven, reason.ExitPending, reason.ExitTimedOut,
	}
	used := make(map[int]bool)
	for _, row := range reason.Table {
		if !slices.Contains(known, row.Exit) {
			t.Errorf("%s exits with %d, which is not documented; success is no reason", row.Code, row.Exit)
		}
		used[row.Exit] = true
	}
	for _, exit := range known {
		if !used[exit] {
			t.Errorf("no reason exits with %d", exit)
		}
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for _, row := range reason.Table {
		for what, text := range map[string]string{"sentence": row.Sentence, "remedy": row.Remedy} {
			switch {
			case text == "":
				t.Errorf("%s has no %s", row.Code, what)
			case !strings.HasSuffix(text, "."):
				t.Errorf("%s: the %s %q has no period", row.Code, what, text)
			case strings.ToUpper(text[:1]) != text[:1]:
				t.Errorf("%s: the %s %q does not begin with a capital", row.Code, what, text)
			case strings.ContainsAny(text, "\n\t"):
				t.Errorf("%s: the %s is not one line", row.Code, what)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk is full")
	err := error(reason.Errorf(reason.JournalUnavailable, "appending: %w", cause))
	if !errors.Is(err, cause) || !errors.Is(err, &reason.Error{Code: reason.JournalUnavailable}) {
		t.Errorf("%v is neither its cause nor its code", err)
	}
	if errors.Is(err, &reason.Error{Code: reason.NotFound}) {
		t.Errorf("%v is another code", err)
	}
	if got := reason.Of(fmt.Errorf("handling: %w", err)); got != reason.JournalUnavailable {
		t.Errorf("Of through a wrap = %s", got)
	}
	if got := reason.Of(cause); got != reason.Internal {
		t.Errorf("Of a plain error = %s, want %s", got, reason.Internal)
	}
	if got := reason.Of(nil); got != "" {
		t.Errorf("Of(nil) = %q", got)
	}
	if got := reason.Lookup("NO_SUCH").Code; got != reason.Internal {
		t.Errorf("an unknown code looks like %s, want %s", got, reason.Internal)
	}
}

func TestRemedyAndFieldsAreCopies(t *testing.T) {
	t.Parallel()
	base := reason.Errorf(reason.BindingMismatch, "the call changed")
	changed := base.WithField("argv", "x").WithField("cwd", "y").WithRemedy("look at %s", "argv")
	if base.Fields != nil || base.Remedy != "" {
		t.Errorf("the base changed: %+v", base)
	}
	if len(changed.Fields) != 2 || changed.NextStep() != "look at argv" {
		t.Errorf("the copy lacks a field or its remedy: %+v", changed)
	}
	if base.NextStep() != reason.Lookup(reason.BindingMismatch).Remedy {
		t.Errorf("the default remedy is %q", base.NextStep())
	}
}
