package tool_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// BindingFields has every field of a binding, so that the tests that change each bound field are
// complete, and a refusal names every difference.
func TestBindingFieldsAreComplete(t *testing.T) {
	t.Parallel()
	var want []string
	for field := range reflect.TypeFor[tool.Binding]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	if !slices.Equal(tool.BindingFields, want) {
		t.Errorf("BindingFields is %v, the fields are %v", tool.BindingFields, want)
	}
	diffs := must.Get(tool.Binding{}.Diff(tool.Binding{Elsewhere: true}))(t)
	if len(diffs) != 1 || diffs[0].Field != "elsewhere" || diffs[0].Is != "true" {
		t.Errorf("a call that another gateway runs differs in %v", diffs)
	}
}
