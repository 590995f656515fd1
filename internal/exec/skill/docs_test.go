package skill_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/wasm/module"
)

func spec(t *testing.T) string {
	t.Helper()
	return string(must.Get(os.ReadFile("../../../docs/format/skill.md"))(t))
}

// TestSpecHasTheInterface: the spec's table of functions equals the importable functions.
func TestSpecHasTheInterface(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(spec(t), "## The interface of handles")
	said := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `(\\(.*?)` \\| ").FindAllStringSubmatch(text, -1) {
		said[row[1]] = row[2]
	}
	is := map[string]string{}
	for name, kind := range module.Functions[module.Capabilities] {
		is[name] = strings.Replace(kind.String(), "-> (i32)", "-> i32", 1)
		is[name] = strings.Replace(is[name], "-> (i64)", "-> i64", 1)
	}
	if !reflect.DeepEqual(said, is) {
		t.Errorf("docs/format/skill.md says %v, and it is %v", said, is)
	}
	if !strings.Contains(spec(t), "`"+module.Capabilities+"`") {
		t.Error("the spec does not name the module")
	}
}

// TestSpecHasEveryKey: the spec's table of the manifest equals the supported keys.
func TestSpecHasEveryKey(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(spec(t), "## The manifest")
	text, _, _ = strings.Cut(text, "\n## ")
	var said []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| ").FindAllStringSubmatch(text, -1) {
		said = append(said, row[1])
	}
	if is := keys(reflect.TypeFor[skill.Manifest](), ""); !reflect.DeepEqual(said, is) {
		t.Errorf("docs/format/skill.md says\n%v\nand it is\n%v", said, is)
	}
}

// keys returns the keys with a value in a table, and in lists of tables.
func keys(t reflect.Type, prefix string) (out []string) {
	for field := range t.Fields() {
		name := prefix + field.Tag.Get("toml")
		inner := field.Type
		if inner.Kind() != reflect.Struct {
			out = append(out, name)
		}
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			out = append(out, keys(inner, name+".")...)
		}
	}
	return out
}

// TestSpecHasEveryCode: the spec contains the codes of findings.
func TestSpecHasEveryCode(t *testing.T) {
	t.Parallel()
	source := string(must.Get(os.ReadFile("audit.go"))(t))
	for _, code := range regexp.MustCompile(`"(SKILL_[A-Z_]+)"`).FindAllStringSubmatch(source, -1) {
		if !strings.Contains(spec(t), "| `"+code[1]+"` | ") {
			t.Errorf("docs/format/skill.md has no row for %s", code[1])
		}
	}
	if !strings.Contains(spec(t), skill.PayloadType) || !strings.Contains(spec(t), skill.Format) {
		t.Error("the spec does not name the format or the payload")
	}
}
