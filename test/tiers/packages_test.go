package main

import (
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestPatterns: a package can be named as the go command names it, and as results name it.
//
// Not parallel: it changes the working directory.
func TestPatterns(t *testing.T) {
	t.Chdir("../..")
	for _, pattern := range []string{"./internal/core/reason", "internal/core/reason", "palyra/internal/core/reason", "internal/core/reason/..."} {
		list := must.Get(listPackages(t.Context(), "go", pattern))(t)
		if len(list) == 0 || list[0].ImportPath != "palyra/internal/core/reason" {
			t.Errorf("%s matches %v", pattern, list)
		}
	}
	if list, err := listPackages(t.Context(), "go", "internal/none"); err == nil || !strings.Contains(err.Error(), "no package matches internal/none") {
		t.Errorf("a package that does not exist matches %v, %v", list, err)
	}
}
