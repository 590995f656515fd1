package overlay

import (
	"slices"
	"testing"
)

// TestChangesBelowADirectory: changes outside a directory are not attributed to it. Changes
// inside are found in every spelling.
func TestChangesBelowADirectory(t *testing.T) {
	t.Parallel()
	file, dir, link := State{Type: File}, State{Type: Dir}, State{Type: Symlink}
	for _, c := range []struct {
		name    string
		changes []Change
		want    []string
	}{
		{"nothing", nil, nil},
		{"in a directory", []Change{{Path: "src/a/b.go", Is: file}, {Path: "src/c.go", Was: file}}, []string{"src"}},
		{"a new directory", []Change{{Path: "src", Is: dir}, {Path: "src/a", Is: file}}, []string{"src"}},
		{"a directory that went", []Change{{Path: "infra", Was: dir}}, []string{"infra"}},
		{"a file of that name", []Change{{Path: "src", Is: file}}, []string{"."}},
		{"a link in the place of a directory", []Change{{Path: "src", Was: dir, Is: link}}, []string{"."}},
		{"a file at the top", []Change{{Path: "Makefile", Was: file, Is: file}}, []string{"."}},
		{"the workspace's own directory", []Change{{Path: ".", Was: dir, Is: dir}}, []string{"."}},
		{"another spelling", []Change{{Path: "INFRA/main.tf", Is: file}}, []string{"INFRA", "infra"}},
		{"several", []Change{{Path: "src/a", Is: file}, {Path: "README.md", Is: file}, {Path: "docs/x", Is: file}}, []string{".", "docs", "src"}},
		{"odd characters", []Change{{Path: "a\nb/x", Is: file}}, []string{`"a\nb"`}},
	} {
		if got := (Set{Changes: c.changes}).Facts().Top; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
