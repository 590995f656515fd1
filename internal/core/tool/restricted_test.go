package tool_test

import (
	"errors"
	"testing"

	"palyra/internal/core/tool"
)

// TestDisclose: a detail is returned only if the caller may read all files of the error. An
// error that lists no files, or a missing check, discloses nothing.
func TestDisclose(t *testing.T) {
	t.Parallel()
	detail := errors.New("detail")
	files := []tool.FileAccess{{Tool: "fs.read"}}
	allow := func([]tool.FileAccess) bool { return true }
	deny := func([]tool.FileAccess) bool { return false }
	for name, c := range map[string]struct {
		files       []tool.FileAccess
		mayDisclose func([]tool.FileAccess) bool
		disclosed   bool
	}{
		"allowed":  {files, allow, true},
		"denied":   {files, deny, false},
		"no check": {files, nil, false},
		"no files": {nil, allow, false},
	} {
		err := tool.Disclose(&tool.RestrictedError{Plan: tool.Plan{Contents: c.files}, Detail: detail}, c.mayDisclose)
		if errors.Is(err, detail) != c.disclosed {
			t.Errorf("%s: %v", name, err)
		}
	}
	if other := errors.New("other"); !errors.Is(tool.Disclose(other, deny), other) {
		t.Error("another error is not returned as it is")
	}
}
