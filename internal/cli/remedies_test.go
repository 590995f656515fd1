package cli_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"palyra/internal/cli"
	"palyra/internal/cli/command"
	"palyra/internal/core/must"
	"palyra/internal/gateway"
)

var (
	advised = regexp.MustCompile("`(palyrad? [^`]+)`")
	// copied matches a command line of the console: its literal first words, and its end or the
	// start of a computed part.
	copied = regexp.MustCompile(`palyra\(((?:"[^"]*",? ?)+)(.)`)
	// filledIn matches a verb of a format, which is replaced with a word.
	filledIn = regexp.MustCompile(`%(\[\d+\])?[sqdv]`)
)

// TestAdviceCanBeFollowed: every command in a text of the programs exists, with its flags.
func TestAdviceCanBeFollowed(t *testing.T) {
	t.Parallel()
	roots := map[string]*cobra.Command{"palyra": cli.Command(), "palyrad": gateway.Command(io.Discard, io.Discard)}
	found := advice(t, "../..")
	if len(found) < 100 {
		t.Errorf("only %d commands are named", len(found))
	}
	for _, line := range slices.Sorted(maps.Keys(found)) {
		if wrong := follow(roots, line); wrong != "" {
			t.Errorf("%s names `%s`: %s", found[line], line, wrong)
		}
	}
	// Control: unknown commands and flags are found.
	for _, line := range []string{
		"palyra members frobnicate X", "palyra nothing", "palyrad members consent X", "palyra members list --nope", "palyra status -Z", "palyra access",
	} {
		if follow(roots, line) == "" {
			t.Errorf("nothing is wrong with `%s`", line)
		}
	}
}

// follow returns why a command line cannot be run, or "".
func follow(roots map[string]*cobra.Command, line string) string {
	words := strings.Fields(filledIn.ReplaceAllString(line, "X"))
	c, rest, err := roots[words[0]].Find(words[1:])
	switch {
	case err != nil:
		return err.Error()
	case c.HasSubCommands() && c.HasParent() && len(rest) > 0 && rest[0] == "X", !c.HasParent() && (words[1] == "help" || words[1][0] == '-'):
		return "" // the subcommand is determined at run time
	case c.HasSubCommands() && (slices.ContainsFunc(rest, func(w string) bool { return !strings.HasPrefix(w, "-") }) || !c.Runnable() || reflect.ValueOf(c.RunE).Pointer() == reflect.ValueOf(command.Group).Pointer()):
		return c.CommandPath() + " needs one of its commands after it"
	}
	c.InitDefaultHelpFlag()
	for _, word := range rest {
		name, is := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		switch {
		case word == "--":
			return ""
		case is && c.Flag(name) == nil && c.InheritedFlags().Lookup(name) == nil:
			return "there is no flag --" + name
		case !is && len(word) > 1 && word[0] == '-' && c.Flags().ShorthandLookup(word[1:2]) == nil && c.InheritedFlags().ShorthandLookup(word[1:2]) == nil:
			return "there is no flag " + word
		}
	}
	return ""
}

// advice returns the commands in texts below a directory, each with the path of a file that has
// it.
func advice(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	note := func(path, text string) {
		for _, m := range advised.FindAllStringSubmatch(text, -1) {
			found[strings.Join(strings.Fields(m[1]), " ")] = path
		}
	}
	for _, dir := range []string{"internal", "cmd"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir():
				return err
			case strings.HasSuffix(path, ".cedar") && !strings.Contains(path, "testdata"):
				text, err := os.ReadFile(path)
				note(path, string(text))
				return err
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "clitest"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				expr, ok := n.(ast.Expr)
				if !ok {
					return true
				}
				text, whole := literal(expr)
				note(path, text)
				return !whole
			})
			return nil
		}))
	}
	must.Do(t, filepath.WalkDir(filepath.Join(root, "web", "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(filepath.Ext(path), ".ts") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range copied.FindAllStringSubmatch(string(text), -1) {
			words := append([]string{"palyra"}, strings.FieldsFunc(m[1], func(r rune) bool { return r == '"' || r == ',' || r == ' ' })...)
			if m[2] != ")" {
				words = append(words, "X")
			}
			found[strings.Join(words, " ")] = path
		}
		return err
	}))
	return found
}

// literal returns the text of a string, or of a concatenation, in which each value is one word.
func literal(e ast.Expr) (text string, whole bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, some := literal(e.X)
		right, more := literal(e.Y)
		if !some {
			left = "X"
		}
		if !more {
			right = "X"
		}
		return left + right, some || more
	}
	return "", false
}
