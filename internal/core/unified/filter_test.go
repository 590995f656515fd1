package unified_test

import (
	"strings"
	"testing"

	"palyra/internal/core/unified"
)

// TestFilter omits one of several files, with the text around it.
func TestFilter(t *testing.T) {
	t.Parallel()
	file := func(path, old, new string) string {
		return unified.File{OldPath: path, NewPath: path, Old: []byte(old), New: []byte(new)}.Diff()
	}
	a, b := file("a.txt", "1\n", "2\n"), file("b.txt", "# one\n", "# two\ndiff --git a/.env b/.env\n")
	env, binary := file(".env", "key\n", "other\n"), file("bin", "\x00\x01", "\x00\x02")
	for name, c := range map[string]struct {
		diff, want string
	}{
		"nothing":                      {},
		"files that all are kept":      {a + b, a + b},
		"a file between others":        {a + env + b, a + b},
		"the first":                    {env + a, a},
		"the last":                     {a + env, a},
		"comments":                     {"# protected: .env (name)\n" + env + a + "# .env: 3 bytes\n" + b, a + b},
		"contents that look like more": {b, b},
		"a binary file":                {strings.ReplaceAll(binary, "bin", ".env") + a, a},
		"a new file":                   {unified.File{NewPath: ".env", New: []byte("key\n")}.Diff() + a, a},
		"text that is not a diff":      {"key\n", ""},
	} {
		got := unified.Filter(c.diff, func(c unified.Change) bool { return c.OldPath != ".env" && c.NewPath != ".env" })
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
