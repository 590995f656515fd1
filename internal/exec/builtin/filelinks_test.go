//go:build unix

package builtin

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
)

// link creates a hard link to a file of the workspace.
func (b *bench) link(from, to string) {
	b.t.Helper()
	full := filepath.Join(b.dir, to)
	must.Do(b.t, os.MkdirAll(filepath.Dir(full), 0o755))
	must.Do(b.t, os.Link(filepath.Join(b.dir, from), full))
}

func TestFileFacts(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("Docs/Readme.md", "text\n")
	b.write("store/a", "text\n")
	b.link("store/a", "store/b")
	must.Do(t, os.Symlink("store/a", filepath.Join(b.dir, "LINK")))
	b.write("CLE\u0301", "text\n")
	for _, c := range []struct {
		tool   string
		in     object
		folded string
		links  int
	}{
		{"fs.read", object{"path": "Docs/Readme.md"}, "docs/readme.md", 1},
		{"fs.read", object{"path": "store/b"}, "store/b", 2},
		{"fs.read", object{"path": "LINK"}, "store/a", 2},
		{"fs.read", object{"path": "CLE\u0301"}, "cl\u00e9", 1},
		{"fs.read", object{"path": "None"}, "none", 0},
		{"fs.search", object{"path": "store/a", "pattern": "x"}, "store/a", 2},
		{"fs.search", object{"path": "store", "pattern": "x"}, "store", 0},
		{"fs.search", object{"pattern": "x"}, ".", 0},
		{"fs.list", object{"path": "Docs"}, "docs", 0},
		{"fs.write", object{"path": "Docs/Readme.md", "content": "x", "mode": "overwrite"}, "docs/readme.md", 1},
		{"fs.write", object{"path": "New", "content": "x"}, "new", 0},
	} {
		plan, err := b.plan(c.tool, c.in)
		if err != nil || plan.Facts.PathFolded != c.folded || plan.Facts.HardLinks != c.links {
			t.Errorf("%s %v: %+q with %d links, want %+q with %d: %v", c.tool, c.in, plan.Facts.PathFolded, plan.Facts.HardLinks, c.folded, c.links, err)
		}
	}
}
