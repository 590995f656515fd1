package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestPortGitLinks: a git file that names a workspace directory by its sandbox path is
// committed with the outside path. The change set lists these bytes, and all other files stay
// unchanged. Control: a layer without a mount path.
func TestPortGitLinks(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, text, want string }{
		{"w/.git", "gitdir: /in/.git/worktrees/w\n", "gitdir: ../.git/worktrees/w\n"},
		{".claude/worktrees/w/.git", "gitdir: /in/.git/worktrees/w\n", "gitdir: ../../../.git/worktrees/w\n"},
		{"apart/.git", "gitdir: /in/store\n", "gitdir: ../store\n"},
		{".git/worktrees/w/gitdir", "/in/a b/w/.git\n", "ROOT/a b/w/.git\n"},
		{"store/worktrees/w/gitdir", "/in/w/.git\n", "ROOT/w/.git\n"},
		// These paths leave the workspace, or are not in the form that git writes.
		{"up/.git", "gitdir: /in/../etc\n", ""},
		{"root/.git", "gitdir: /in/\n", ""},
		{"beside/.git", "gitdir: /inside/.git/worktrees/w\n", ""},
		{"doubled/.git", "gitdir: /in//etc\n", ""},
		{"lines/.git", "gitdir: /in/a\n/in/b\n", ""},
		{"more/.git", "gitdir: /in/a\n\n", ""},
		{"bare/.git", "/in/a/.git\n", ""},
		{"open/.git", "gitdir: /in/a", ""},
		{"nul/.git", "gitdir: /in/a\x00b\n", ""},
		{"large/.git", "gitdir: /in/" + strings.Repeat("a", mostGitLink) + "\n", ""},
		{".git/worktrees/up/gitdir", "/in/../etc/.git\n", ""},
		{".git/worktrees/other/gitdir", "/in/etc/passwd\n", ""},
		{".git/worktrees/gitdir", "/in/w/.git\n", ""},
		{"notes/gitdir", "/in/w/.git\n", ""},
		{"notes/git", "gitdir: /in/a\n", ""},
	}
	for _, mount := range []string{"/in", ""} {
		w := newWorld(t, `mkdir -p .git/worktrees/old; echo /host/.git >.git/worktrees/old/gitdir`)
		w.renew(func(c *Config) { c.Mount = mount })
		up := w.layer.Upper().Name()
		for _, c := range cases {
			w.write(up, c.name, c.text)
		}
		w.write(up, "twice/.git", "gitdir: /in/a\n")
		must.Do(t, os.Link(filepath.Join(up, "twice/.git"), filepath.Join(up, "twice/other")))
		must.Do(t, os.MkdirAll(filepath.Join(up, "link"), 0o755))
		must.Do(t, os.Symlink(w.canary, filepath.Join(up, "link/.git")))
		set := w.changes()
		if again := w.changes(); again.Root() != set.Root() {
			t.Errorf("mount %q: looking twice gives two change sets", mount)
		}
		listed := map[string]Change{}
		for _, c := range set.Changes {
			listed[c.Path] = c
		}
		w.commit(set)
		for _, c := range append(cases, struct{ name, text, want string }{"twice/.git", "gitdir: /in/a\n", ""}) {
			want := strings.Replace(c.want, "ROOT", w.root, 1)
			if mount == "" || want == "" {
				want = c.text
			}
			if got := read(t, filepath.Join(w.root, c.name)); got != want {
				t.Errorf("mount %q: %s is %.100q, not %.100q", mount, c.name, got, want)
			}
			if got := listed[c.name].Is; got.SHA256 != sum(want) || got.Size != int64(len(want)) {
				t.Errorf("mount %q: the change of %s has %s and %d bytes", mount, c.name, got.SHA256, got.Size)
			}
			if diff := set.layer.diff(new(listed[c.name])); c.want != "" && !strings.Contains(diff, "+"+want) {
				t.Errorf("mount %q: the diff of %s has %s", mount, c.name, diff)
			}
		}
	}
}
