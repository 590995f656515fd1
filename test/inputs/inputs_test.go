package inputs

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// row is a line of a table: text fields separated by tabs.
type row struct {
	input, rule, test string
	siblings          []string
}

// rows reads a table. A line that begins with # is a comment.
func rows(t *testing.T, file string) []row {
	t.Helper()
	text := must.Get(os.Open(file))(t)
	defer text.Close()
	var list []row
	lines := bufio.NewScanner(text)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 4 {
			t.Errorf("%s:%d: %d fields, want input, rule, test and siblings, with tabs between them", file, n, len(fields))
			continue
		}
		list = append(list, row{input: fields[0], rule: fields[1], test: fields[2], siblings: strings.Split(fields[3], "; ")})
	}
	must.Do(t, lines.Err())
	return list
}

var declaration = regexp.MustCompile(`(?m)^func (Test\w+)\(|\b(?:test|it)\(\s*["'\x60]([^"'\x60]+)`)

// declared returns the tests of the project, each as its file's directory and its name.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	tests := make(map[string]bool)
	root := filepath.Join("..", "..")
	for _, part := range []string{"cmd", "internal", "test", "web/src", "web/e2e"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, part), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, ".test.ts") && !strings.Contains(path, ".spec.ts") {
				return err
			}
			text, err := os.ReadFile(path)
			directory, _ := filepath.Rel(root, filepath.Dir(path))
			for _, name := range declaration.FindAllStringSubmatch(string(text), -1) {
				tests[filepath.ToSlash(directory)+" "+name[1]+name[2]] = true
			}
			return err
		}))
	}
	return tests
}

// TestEveryInputIsTried: the test that a row names exists, and the row names two siblings.
func TestEveryInputIsTried(t *testing.T) {
	t.Parallel()
	tests := declared(t)
	files := must.Get(filepath.Glob("*.tsv"))(t)
	if len(files) == 0 {
		t.Fatal("there is no table")
	}
	for _, file := range files {
		seen := make(map[string]bool)
		for _, r := range rows(t, file) {
			if !tests[r.test] {
				t.Errorf("%s: %q: there is no test %q", file, r.input, r.test)
			}
			if len(r.siblings) < 2 {
				t.Errorf("%s: %q: %d siblings, want two", file, r.input, len(r.siblings))
			}
			if seen[r.input] {
				t.Errorf("%s: %q stands there twice", file, r.input)
			}
			seen[r.input] = true
		}
	}
}
