package archtest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// internalSources are the files that return INTERNAL, whose message only refers to the log. Each of
// them logs the cause or passes it to code that logs it.
var internalSources = []string{
	"internal/call/dispatch/run.go",                  // logs
	"internal/call/record.go",                        // logs
	"internal/core/tool/ending.go",                   // in the report, which dispatch logs
	"internal/exec/program/commitgate/commitgate.go", // in the error, which the tool reports
	"internal/run/calls.go",                          // logs
	"internal/run/ending.go",                         // in the ending, which the loop logs
	"internal/surface/api/errors.go",                 // logs
	"internal/surface/hook/service.go",               // logs
	"internal/surface/mcp/call.go",                   // logs
}

// TestInternalErrorsAreCreatedWhereTheyAreLogged: INTERNAL refers users to the log, so the log must have the
// cause.
func TestInternalErrorsAreCreatedWhereTheyAreLogged(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	var found []string
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && (strings.Contains(string(text), "reason.Fault(") || strings.Contains(string(text), "reason.Lookup(reason.Internal)")) {
			name, relErr := filepath.Rel(root, path)
			found, err = append(found, filepath.ToSlash(name)), relErr
		}
		return err
	})
	must.Do(t, err)
	slices.Sort(found)
	if !slices.Equal(found, internalSources) {
		t.Errorf("INTERNAL is made in %v\nwant %v: log the cause there, and name the file here", found, internalSources)
	}
}
