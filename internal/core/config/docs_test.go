package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// documentedKeys are the keys of docs/config.md: every leaf of the struct,
// those of list elements included.
func documentedKeys(prefix string, t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Tag.Get("toml") == "-" {
			continue
		}
		name := prefix + field.Tag.Get("toml")
		switch {
		case field.Type.Kind() == reflect.Struct:
			names = append(names, documentedKeys(name+".", field.Type)...)
		case isTableList(field.Type):
			names = append(names, documentedKeys(name+".", field.Type.Elem())...)
		default:
			names = append(names, name)
		}
	}
	return names
}

// TestDocumentation holds docs/config.md, the keys and their defaults together.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../docs/config.md"))(t)
	rows := make(map[string][]string)
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\| (.*?) \\| (.*) ?\\|$").FindAllStringSubmatch(string(text), -1) {
		if rows[match[1]] != nil {
			t.Errorf("%s is documented twice", match[1])
		}
		rows[match[1]] = match[2:]
	}
	keys := documentedKeys("", reflect.TypeFor[Config]())
	for _, name := range keys {
		if rows[name] == nil {
			t.Errorf("docs/config.md lacks a row for %s", name)
		}
	}
	for name := range rows {
		if !slices.Contains(keys, name) {
			t.Errorf("docs/config.md documents %s, which does not exist", name)
		}
	}
	// These depend on the machine.
	elsewhere := []string{"state_dir", "policy.dir"}
	documented := Default()
	documented.ProcessRunner.Tier = defaultTier("linux")
	if defaultTier("windows") != TierB || !strings.Contains(rows["process_runner.tier"][1], "Windows has no Tier C, and `b` is the default there") {
		t.Error("docs/config.md does not say what the tier is on Windows")
	}
	for _, k := range keysOf(documented) {
		if row := rows[k.name]; row != nil && !slices.Contains(elsewhere, k.name) && row[0] != "`"+show(k.value)+"`" {
			t.Errorf("docs/config.md says that %s is %s by default, it is %s", k.name, row[0], show(k.value))
		}
	}
}

// TestDocumentedExample loads the example of the document.
func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../docs/config.md"))(t)
	_, rest, _ := strings.Cut(string(text), "```toml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/config.md has no example")
	}
	w := newWorld(t)
	w.write(example)
	if c, _ := w.load(w.options()); c.MaxCallsPerRun != 100 || len(c.Workspaces) != 1 {
		t.Errorf("the example gives %+v", c)
	}
}
