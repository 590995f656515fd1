package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

const repository = `git init -q; git config user.name a; echo one >f; git add f; git commit -qm one; git branch other; git gc -q`

// TestGitCommandsNeedNoApproval runs common git operations of agents in a real overlay. None of
// the changes is protected, and git accepts the result.
func TestGitCommandsNeedNoApproval(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"commit":      `echo two >>f; git add f; git commit -qm two`,
		"checkout -b": `git checkout -q -b topic; echo two >g; git add g; git commit -qm two`,
		"merge": `git checkout -q other; echo two >g; git add g; git commit -qm two; git checkout -q -; echo three >h; git add h; git commit -qm three;
			git merge -q --no-edit other`,
		"merge with a conflict": `git checkout -q other; echo two >f; git commit -qam two; git checkout -q -; echo three >f; git commit -qam three; ! git merge -q other`,
		"stash":                 `echo two >f; git stash -q; echo three >h; git stash -q -u`,
		"rebase":                `git checkout -q other; echo two >g; git add g; git commit -qm two; git checkout -q -; echo 3 >h; git add h; git commit -qm 3; git rebase -q other`,
		"cherry-pick":           `git checkout -q other; echo two >g; git add g; git commit -qm two; git checkout -q -; git cherry-pick -x other >/dev/null`,
		"tag and gc":            `git tag v1; git tag -am v2 v2; git gc -q`,
		"reset":                 `echo two >f; git commit -qam two; git reset -q --hard HEAD~1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, repository)
			shown := w.inside("sh", script)
			set := w.changes()
			if len(set.Changes) == 0 || len(set.Facts().Protected) != 0 {
				t.Errorf("%d changes, protected: %q", len(set.Changes), set.Facts().Protected)
			}
			w.commit(set)
			if diff := differences(shown, mustTree(t, w.root)); diff != "" {
				t.Error(diff)
			}
			w.outside(`git fsck --strict --no-dangling; git status >/dev/null`)
		})
	}
}

// TestClasses has a row for each way to gain trust in FS-03 to FS-09 of the catalog, and rows
// for harmless changes.
func TestClasses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, before, script string
		want                 map[string]string // path to classes; "" is not protected
	}{
		{"FS-03 links", `mkdir d`, `ln -s "$CANARY" abs; ln -s ../.. d/up; ln -s d/../d in; ln -s d/up/x chain; ln -s loop loop; ln -s . here`,
			map[string]string{"abs": "symlink", "d/up": "symlink", "in": "symlink", "chain": "symlink", "loop": "symlink", "here": ""}},
		{"FS-03 a link in place of a directory", `mkdir d; echo 1 >d/f`, `rm -r d; ln -s .. d`, map[string]string{"d": "symlink", "d/f": ""}},
		{"FS-05 hooks and configuration", repository, `echo 1 >.git/hooks/pre-commit; git config core.fsmonitor /bin/false; echo x >.git/info/attributes; echo '* filter=x' >.gitattributes;
			echo /tmp >.git/objects/info/alternates; echo .. >.git/commondir; : >.git/config.worktree; rm .git/info/exclude; mkdir -p .git/branches; echo x >.git/branches/origin`,
			map[string]string{".git/hooks/pre-commit": "git", ".git/config": "git", ".git/info/attributes": "git", ".gitattributes": "runner", ".git/objects/info/alternates": "git",
				".git/commondir": "git", ".git/config.worktree": "git", ".git/info/exclude": "git", ".git/branches/origin": "git"}},
		{"FS-05 a repository of its own", `mkdir sub`, `git init -q sub`, map[string]string{"sub/.git": "git", "sub/.git/HEAD": "git", "sub/.git/config": "git", "sub/.git/refs/heads": "git"}},
		{"FS-05 .git as a file", `mkdir sub`, `echo 'gitdir: ../x' >sub/.git; ln -s x .git`, map[string]string{"sub/.git": "git", ".git": "git"}},
		{"FS-05 a repository without the name", `mkdir plain; echo x >plain/config`, `cd plain; mkdir objects refs; echo 'ref: refs/heads/x' >HEAD`,
			map[string]string{"plain/HEAD": "git", "plain/objects": "git", "plain/refs": "git"}},
		{"FS-05 a bare repository that exists", `git init -q --bare b`, `echo x >b/hooks/update; git --git-dir b config a.b c; echo x >b/objects/aa`,
			map[string]string{"b/hooks/update": "git", "b/config": "git", "b/objects/aa": ""}},
		{"FS-05 a new worktree", repository, `git worktree add -q w`, map[string]string{"w/.git": "git"}},
		{"FS-05 a link inside", repository, `ln -s ../../f .git/refs/heads/x`, map[string]string{".git/refs/heads/x": "git"}},
		{"FS-05 commands of a rebase", repository, `mkdir .git/rebase-merge; echo 'exec evil' >.git/rebase-merge/git-rebase-todo`,
			map[string]string{".git/rebase-merge/git-rebase-todo": "git"}},
		{"FS-06 another .git", repository, `mv .git .git2 2>/dev/null || { cp -r .git .git2; rm -r .git; }; mkdir .git; echo x >.git/config`,
			map[string]string{".git/config": "git", ".git2/HEAD": "git", ".git2/config": "git"}},
		{"FS-07 agents and editors", ``, `mkdir -p .claude/hooks .cursor .vscode .github/workflows; for f in .mcp.json .claude/settings.json .claude/hooks/x .cursor/mcp.json \
			.vscode/tasks.json .envrc .npmrc .pre-commit-config.yaml .github/workflows/ci.yml; do echo 1 >$f; done`,
			map[string]string{".mcp.json": "agent", ".claude": "agent", ".claude/settings.json": "agent", ".claude/hooks/x": "agent", ".vscode/tasks.json": "agent", ".envrc": "agent",
				".npmrc": "agent", ".pre-commit-config.yaml": "agent", ".github/workflows/ci.yml": "agent"}},
		{"FS-07 runners", `echo '{"name":"x","scripts":{"test":"true"}}' >package.json`,
			`echo all: >Makefile; mkdir t; echo 1 >t/conftest.py; echo 1 >setup.py; echo '[tox]' >tox.ini; echo '{"scripts":{"test":"evil"}}' >package.json`,
			map[string]string{"Makefile": "runner", "t/conftest.py": "runner", "setup.py": "runner", "tox.ini": "runner", "package.json": "runner"}},
		{"a dependency needs no approval", `echo '{"name":"x","scripts":{"test":"true"}}' >package.json; echo '[project]
name="x"' >pyproject.toml; echo '[package]
name="x"' >Cargo.toml`, `echo '{"scripts":{"test":"true"},"name":"x","dependencies":{"foo":"^1"}}' >package.json
			mkdir -p node_modules/foo/.github/workflows node_modules/.bin; echo '{"scripts":{"test":"x"}}' >node_modules/foo/package.json; echo x >node_modules/foo/.npmrc
			echo 1 >package-lock.json; echo x: >node_modules/foo/Makefile; echo 1 >node_modules/foo/.github/workflows/ci.yml; ln -s ../foo/cli node_modules/.bin/foo
			printf '[project]\nname="x"\ndependencies=["y"]\n' >pyproject.toml; printf '[package]\nname="x"\n[dependencies]\ny="1"\n' >Cargo.toml; echo 1 >go.sum`,
			map[string]string{"package.json": "", "node_modules/foo/package.json": "", "package-lock.json": "", "node_modules/foo/Makefile": "", "node_modules/.bin/foo": "",
				"node_modules/foo/.npmrc": "", "node_modules/foo/.github/workflows/ci.yml": "", "pyproject.toml": "", "Cargo.toml": "", "go.sum": ""}},
		{"what runs does", `echo '[package]' >Cargo.toml; echo '[project]' >pyproject.toml`, `printf '[package]\nbuild="x.rs"\n' >Cargo.toml; printf '[build-system]\nbackend-path=["."]\n' >pyproject.toml
			mkdir -p node_modules/x/.claude node_modules/x/.git/hooks; echo 1 >node_modules/x/.claude/settings.json; echo 1 >node_modules/x/.git/hooks/x; echo nonsense >package.json`,
			map[string]string{"Cargo.toml": "runner", "pyproject.toml": "runner", "node_modules/x/.claude/settings.json": "agent", "node_modules/x/.git/hooks/x": "git", "package.json": "runner"}},
		{"FS-08 case and Unicode", ``, "mkdir .GIT .Claude; echo 1 >.GIT/config; echo 1 >.Claude/settings.json; echo 1 >.MCP.json; echo 1 >MAKEFILE; printf 1 >'.en\u200bvrc'; echo 1 >'.gıt'",
			map[string]string{".GIT/config": "git", ".Claude/settings.json": "agent", ".MCP.json": "agent", "MAKEFILE": "runner", ".en\u200bvrc": "agent, name"}},
		{"FS-09 set-ID bits", ``, `echo 1 >s; chmod 4755 s; echo 1 >g; chmod 2755 g; mkdir d; chmod 1777 d; mkdir n`,
			map[string]string{"s": "mode", "g": "mode", "d": "mode", "n": ""}},
		{"FS-09 names", ``, "printf 1 >'a\nb'; printf 1 >'e\033[2J'; printf 1 >\"$(printf 'x\\377')\"; printf 1 >'\u202egnp.exe'; printf 1 >.palyra-x; printf 1 >'ünï'",
			map[string]string{"a\nb": "name", "e\x1b[2J": "name", "x\xff": "name", "\u202egnp.exe": "name", ".palyra-x": "name", "ünï": ""}},
		{"FS-09 look-alikes", `mkdir d; echo 1 >cop.py; echo 1 >d/other; echo 1 >gone`,
			"printf 1 >'re\u0430dme'; printf 1 >'\u0441\u043e\u0440.py'; printf 1 >'d/\u0441\u043e\u0440.py'; printf 1 >'\u0441\u043e\u0431.py'; printf 1 >'yap\u0131m'; rm gone; printf 1 >'g\u00f6ne'; printf 1 >n\u0131x; printf 1 >nix",
			map[string]string{"re\u0430dme": "name", "\u0441\u043e\u0440.py": "name", "d/\u0441\u043e\u0440.py": "", "\u0441\u043e\u0431.py": "", "yap\u0131m": "", "g\u00f6ne": "", "n\u0131x": "name", "nix": ""}},
		{"FS-09 look-alikes in a directory that cannot be listed", `mkdir e; ln -s e d`, "rm d; mkdir d; printf 1 >'d/\u00fc'; printf 1 >d/u; mkdir n; printf 1 >'n/\u00fc'",
			map[string]string{"d/\u00fc": "name", "d/u": "", "n/\u00fc": ""}},
		{"an environment's programs", ``, `mkdir -p v/bin tools; echo home=x >v/pyvenv.cfg; echo 1 >v/bin/tool; chmod +x v/bin/tool; echo 1 >v/bin/data; echo 1 >tools/t; chmod +x tools/t; ln -s t tools/l; echo >x; chmod +x x`,
			map[string]string{"v/bin/tool": "executable", "v/bin/data": "", "tools/t": "executable", "tools/l": "executable", "x": ""}},
		{"declared", `mkdir -p deploy scripts`, `echo 1 >deploy/a; mkdir -p deploy/b; echo 1 >deploy/b/c; echo 1 >scripts/x.sh; echo 1 >scripts/x.py; mkdir -p q/keys; echo 1 >q/keys/k.PEM`,
			map[string]string{"deploy/a": "declared", "deploy/b/c": "declared", "scripts/x.sh": "declared", "scripts/x.py": "", "q/keys/k.PEM": "declared"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ":"+"\n"+test.before)
			w.renew(func(c *Config) {
				c.Protected = []string{"scripts/*.sh", "deploy/**", "**/*.pem"}
				c.SearchPath = []string{"/usr/bin", filepath.Join(w.root, "tools")}
			})
			w.inside("sh", test.script)
			got := classesOf(w.changes())
			for name, want := range test.want {
				have, ok := got[name]
				if !ok || have != want {
					t.Errorf("%q has %q (changed: %v), want %q", name, have, ok, want)
				}
			}
			if t.Failed() {
				t.Logf("all: %q", got)
			}
		})
	}
}

// TestHardLinkAlias covers FS-04: a file outside the workspace with a hard link inside keeps
// its content.
func TestHardLinkAlias(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `echo secret >../outside; ln ../outside alias; ln alias second`)
	w.inside("sh", `echo evil >>alias; chmod 777 second`)
	w.commit(w.changes())
	if got := read(t, w.root, "../outside"); got != "secret\n" {
		t.Errorf("outside is %q", got)
	}
	if got := read(t, w.root, "alias"); got != "secret\nevil\n" {
		t.Errorf("alias is %q", got)
	}
	info, err := os.Stat(filepath.Join(w.root, "../outside"))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("outside has mode %v", info.Mode())
	}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(parts...)))(t)
	return string(content)
}

// TestSpecialFilesAreRefused covers FS-09: no change is committed, not even a harmless one.
func TestSpecialFilesAreRefused(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"fifo":   `mkfifo p; echo 1 >f`,
		"socket": `rm kept; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("kept")'; echo 1 >f`,
		"gone":   `rm there; echo 1 >f`,
		"taken":  `rm there; echo 1 >there`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, `mkfifo there; echo 1 >kept`)
			before := mustTree(t, w.root)
			w.inside("sh", script)
			set := w.changes()
			if len(set.Refused()) != 1 {
				t.Errorf("refused %q", set.Refused())
			}
			_, err := w.layer.Commit(t.Context(), set, w.options())
			if reason.Of(err) != reason.CommitRefused || !strings.Contains(err.Error(), set.Refused()[0]) {
				t.Errorf("got %v", err)
			}
			if diff := differences(before, mustTree(t, w.root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNewSocketsAreLeftOut: a program may leave a socket behind, which is not committed.
func TestNewSocketsAreLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `:`)
	w.inside("sh", `mkdir d; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("p"); socket.socket(socket.AF_UNIX).bind("d/p")'; echo 1 >f; test -S p && test -S d/p`)
	w.commit(w.changes())
	for name, want := range map[string]bool{"f": true, "d": true, "p": false, "d/p": false} {
		if _, err := os.Lstat(filepath.Join(w.root, name)); (err == nil) != want {
			t.Errorf("%s was committed: %t", name, err == nil)
		}
	}
}

// TestModesAndAttributesAreDropped covers the rest of FS-09.
func TestModesAndAttributesAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `:`)
	w.inside("sh", `echo 1 >s; chmod 6755 s; mkdir d; chmod 3777 d`)
	up := filepath.Join(w.layer.Upper().Name(), "s")
	must.Do(t, unix.Setxattr(up, "user.evil", []byte("x"), 0))
	w.commit(w.changes())
	for name, want := range map[string]uint32{"s": unix.S_IFREG | 0o755, "d": unix.S_IFDIR | 0o777} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(w.root, name), &st); err != nil || st.Mode != want {
			t.Errorf("%s has mode %o, want %o (%v)", name, st.Mode, want, err)
		}
	}
	if n, err := unix.Listxattr(filepath.Join(w.root, "s"), nil); err != nil || n != 0 {
		t.Errorf("%d bytes of attributes (%v)", n, err)
	}
}

// TestMarksOfTheOverlay covers the attributes that older and newer kernels leave in a layer.
func TestMarksOfTheOverlay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, on, key, value string
		want                 reason.Code
		deleted              []string
	}{
		{"whiteout attribute", "w", "user.overlay.whiteout", "y", "", []string{"w"}},
		{"redirect", "d", "user.overlay.redirect", "/x", reason.CommitRefused, nil},
		{"metacopy", "w", "user.overlay.metacopy", "", reason.CommitRefused, nil},
		{"unknown", "d", "user.overlay.novel", "1", reason.CommitRefused, nil},
		{"unknown opaque", "d", "user.overlay.opaque", "z", reason.CommitRefused, nil},
		{"opaque", "d", "user.overlay.opaque", "y", "", []string{"d/f"}},
		{"a program's own", "d", "user.overlay.overlay.opaque", "y", "", nil},
		{"origin", "w", "user.overlay.origin", "1", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, `: >w; mkdir d; echo 1 >d/f`)
			up := w.layer.Upper().Name()
			for _, err := range []error{
				os.WriteFile(filepath.Join(up, "w"), nil, 0o644), os.Mkdir(filepath.Join(up, "d"), 0o755),
				unix.Setxattr(up, "user.overlay.opaque", []byte("x"), 0),
				unix.Setxattr(filepath.Join(up, test.on), test.key, []byte(test.value), 0),
			} {
				must.Do(t, err)
			}
			set, err := w.layer.Changes(t.Context())
			if test.want != "" && reason.Of(err) != test.want || test.want == "" && err != nil {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			var deleted []string
			for _, c := range set.Changes {
				if c.Op() != Deleted {
					t.Errorf("%s is %s", c.Path, c.Op())
				}
				deleted = append(deleted, c.Path)
			}
			if diff := cmp.Diff(test.deleted, deleted); diff != "" {
				t.Error(diff)
			}
		})
	}
}
