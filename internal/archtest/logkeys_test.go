package archtest

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"palyra/internal/core/must"
)

// TestLogKeysAreWritten compares the keys of the logs with their list in docs/observability.md.
func TestLogKeysAreWritten(t *testing.T) {
	t.Parallel()
	tree, err := Load("../..")
	must.Do(t, err)
	text, err := os.ReadFile("../../docs/observability.md")
	must.Do(t, err)
	section := regexp.MustCompile(`(?s)\n## Log keys\n(.*?)(\n## |$)`).FindSubmatch(text)
	if section == nil {
		t.Fatal("docs/observability.md has no section on log keys")
	}
	written := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllSubmatch(section[1], -1) {
		written[string(row[1])] = true
	}
	used := LogKeys(tree)
	if len(used) < 10 {
		t.Fatalf("only %d keys were found in the source", len(used))
	}
	for _, key := range slices.Sorted(maps.Keys(used)) {
		if !written[key] {
			t.Errorf("%s: the log key %q is not in docs/observability.md; use one of its keys, or add a row", used[key], key)
		}
	}
	for key := range written {
		if used[key] == "" {
			t.Errorf("docs/observability.md lists the log key %q, which nothing logs", key)
		}
	}
}

func TestLogKeysAreFound(t *testing.T) {
	t.Parallel()
	keys := LogKeys(parse(t, map[string]string{
		"internal/call/policy/a.go": `package policy; import l "log/slog"; func f() { l.Info("x", l.String("found", ""), l.Any("found_too", nil)); l.StringValue("no"); g.String("other", "") }`,
	}))
	if got := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, []string{"found", "found_too"}) {
		t.Errorf("found %v", got)
	}
}
