package overlay

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestLinkThatLeavesLater: a link that goes down and up again stays inside. A later, harmless
// change can put another link on its path, after which it leads out.
func TestLinkThatLeavesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `mkdir -p a/b`)
	w.inside("sh", `ln -s d/../../x a/b/later; ln -s ../../f a/b/up; mkdir -p a/real; ln -s ./real a/down`)
	set := w.changes()
	if got := classesOf(set); got["a/b/later"] != "symlink" || got["a/b/up"] != "" || got["a/down"] != "" {
		t.Errorf("classes %q", got)
	}
	// The second step alone is ordinary, and makes the first link lead out.
	w.commit(set)
	w.renew()
	w.inside("quiet", `ln -s ../.. a/b/d`)
	if got := classesOf(w.changes()); got["a/b/d"] != "" {
		t.Errorf("classes %q", got)
	}
}

// TestRepositoryOfASubmodule: a submodule's repository is classified as a whole, not only the
// names that configure git in any directory.
func TestRepositoryOfASubmodule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repository+`; git init -q --bare .git/modules/sub`)
	w.inside("sh", `cd .git/modules/sub; mkdir rebase-merge; echo 'exec evil' >rebase-merge/git-rebase-todo; : >index; echo x >refs/heads/y; ln -s "$CANARY" index.lock; echo x >hooks/y`)
	got := classesOf(w.changes())
	for name, want := range map[string]string{
		"rebase-merge/git-rebase-todo": "git", "index.lock": "git, symlink", "hooks/y": "git", "index": "", "refs/heads/y": "",
	} {
		if have, ok := got[".git/modules/sub/"+name]; !ok || have != want {
			t.Errorf("%s has %q (changed: %v), want %q", name, have, ok, want)
		}
	}
}

// TestLongPathsAreBounded: the total length of paths is limited, because long paths cost the
// daemon several times their length and a program almost nothing.
func TestLongPathsAreBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files int
		want  reason.Code
	}{{100, ""}, {maxText / 3500, reason.QuotaExceeded}} {
		w := newWorld(t, ":")
		at, err := unix.Open(w.layer.Upper().Name(), unix.O_DIRECTORY, 0)
		for range 15 {
			name := strings.Repeat("d", 250)
			if err = errors.Join(err, unix.Mkdirat(at, name, 0o755)); err != nil {
				t.Fatal(err)
			}
			next, openErr := unix.Openat(at, name, unix.O_DIRECTORY, 0)
			unix.Close(at)
			at, err = next, openErr
		}
		for i := range test.files {
			must.Do(t, unix.Symlinkat("x", at, fmt.Sprint(i)))
		}
		unix.Close(at)
		if _, err := w.layer.Changes(t.Context()); reason.Of(err) != test.want {
			t.Errorf("%d files: %v, want %q", test.files, err, test.want)
		}
	}
}

// TestDiffHidesNoChangeBehindAnother: a large protected file does not displace a small one from
// the diff.
func TestDiffHidesNoChangeBehindAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ":")
	w.inside("sh", `mkdir a z; seq 20000 >a/Makefile; echo curl-evil >z/.envrc`)
	diff := w.changes().Diff(16 << 10)
	if !strings.Contains(diff, "+curl-evil") || !strings.Contains(diff, "more bytes of this diff are not shown") || len(diff) > 17<<10 {
		t.Errorf("%d bytes of diff end in %q", len(diff), diff[max(0, len(diff)-300):])
	}
}

// TestInstructionsOfAgents: instructions are protected like agents' configuration, unless they
// are in a package.
func TestInstructionsOfAgents(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"CLAUDE.md": true, "sub/agents.md": true, ".github/copilot-instructions.md": true, "node_modules/x/AGENTS.md": false, "README.md": false,
	} {
		if got := agentPath(name); got != want {
			t.Errorf("agentPath(%q) = %v", name, got)
		}
	}
}

// TestHooksElsewhere: a file that git's configuration names as a hook is protected at any path.
func TestHooksElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, repository+`; mkdir -p tools/hooks conf; git config core.hooksPath tools/hooks; git config include.path ../conf/git.cfg;
		git config core.fsmonitor "$PWD/tools/watch"; git config remote.origin.url tools/x`)
	w.outside(`git config --add core.attributesFile gone/x`)
	w.renew()
	w.inside("sh", `ln -s conf gone; echo evil >tools/hooks/pre-commit; echo x >tools/x; echo x >tools/watch; echo x >conf/git.cfg; echo x >hooks`)
	got := classesOf(w.changes())
	for name, want := range map[string]string{"tools/hooks/pre-commit": "git", "conf/git.cfg": "git", "tools/watch": "git", "gone": "git", "tools/x": "", "hooks": ""} {
		if have, ok := got[name]; !ok || have != want {
			t.Errorf("%s has %q (changed: %v), want %q", name, have, ok, want)
		}
	}
}
