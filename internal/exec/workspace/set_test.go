package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// world has a writable workspace "default", and a directory that represents the rest of the
// machine.
type world struct {
	inside, outside string
	root            *Root
}

func stateDir(path string) Private { return Private{Name: "state_dir", Path: path} }

func newWorld(t *testing.T) world {
	t.Helper()
	base := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	w := world{inside: filepath.Join(base, "inside"), outside: filepath.Join(base, "outside")}
	for _, dir := range []string{w.inside, w.outside, filepath.Join(base, "state")} {
		must.Do(t, os.Mkdir(dir, 0o755))
	}
	write(t, filepath.Join(w.outside, "secret"), "secret")
	set := must.Get(NewSet([]Declaration{{Name: "default", Path: w.inside}}, stateDir(filepath.Join(base, "state"))))(t)
	w.root = must.Get(set.Open(""))(t)
	t.Cleanup(func() { w.root.Close() })
	return w
}

func write(t *testing.T, name, content string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(t, os.WriteFile(name, []byte(content), 0o644))
}

func read(t *testing.T, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(name))(t)
	return string(data)
}

func TestNewSetRefuses(t *testing.T) {
	t.Parallel()
	base := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	state := filepath.Join(base, "a", "state")
	for _, dir := range []string{state, filepath.Join(base, "ws", "inner"), filepath.Join(state, "journal")} {
		must.Do(t, os.MkdirAll(dir, 0o755))
	}
	write(t, filepath.Join(base, "file"), "")
	if err := os.Symlink(state, filepath.Join(base, "link")); err != nil {
		t.Skip("no symbolic links here")
	}
	ws := filepath.Join(base, "ws")
	tests := []struct {
		name  string
		decls []Declaration
		says  string
	}{
		{"relative", []Declaration{{Name: "w", Path: "ws"}}, "not absolute"},
		{"missing", []Declaration{{Name: "w", Path: filepath.Join(base, "none")}}, "none"},
		{"file", []Declaration{{Name: "w", Path: filepath.Join(base, "file")}}, "not a directory"},
		{"bad name", []Declaration{{Name: "W s", Path: ws}}, "workspace name"},
		{"empty name", []Declaration{{Path: ws}}, "workspace name"},
		{"twice", []Declaration{{Name: "w", Path: ws}, {Name: "w", Path: ws}}, "declared twice"},
		{"the state itself", []Declaration{{Name: "w", Path: state}}, "state"},
		{"contains the state", []Declaration{{Name: "w", Path: filepath.Join(base, "a")}}, "contains"},
		{"everything", []Declaration{{Name: "w", Path: "/"}}, "contains"},
		{"inside the state", []Declaration{{Name: "w", Path: filepath.Join(state, "journal")}}, "lies inside"},
		{"the state by a link", []Declaration{{Name: "w", Path: filepath.Join(base, "link", "journal")}}, "lies inside"},
		{"read-only inside writable", []Declaration{{Name: "w", Path: ws}, {Name: "r", Path: filepath.Join(ws, "inner"), ReadOnly: true}}, "read-only"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := NewSet(test.decls, stateDir(state))
			if reason.Of(err) != reason.ConfigInvalid || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want it to say %q", err, test.says)
			}
		})
	}
	if _, err := NewSet(nil, stateDir("")); err == nil {
		t.Error("an empty state directory is accepted")
	}
	// The path of a state directory that does not exist yet is protected.
	if _, err := NewSet([]Declaration{{Name: "w", Path: ws}}, stateDir(filepath.Join(ws, "later", "state"))); err == nil {
		t.Error("the state would be made inside a workspace")
	}
	// Negative control: with the state elsewhere the same directories are valid.
	if _, err := NewSet([]Declaration{{Name: "w", Path: ws}, {Name: "a", Path: filepath.Join(base, "a")}}, stateDir(filepath.Join(base, "other"))); err != nil {
		t.Error(err)
	}
}

func TestOpenByName(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	var decls []Declaration
	for _, name := range []string{"one", "two", "default"} {
		dir := filepath.Join(base, name)
		must.Do(t, os.Mkdir(dir, 0o755))
		decls = append(decls, Declaration{Name: name, Path: dir})
	}
	state := filepath.Join(base, "state")
	open := func(decls []Declaration, name string) (string, error) {
		set := must.Get(NewSet(decls, stateDir(state)))(t)
		root, err := set.Open(name)
		if err != nil {
			return "", err
		}
		defer root.Close()
		return root.Name(), nil
	}
	if got, err := open(decls[:1], ""); got != "one" {
		t.Errorf("the only one: %q, %v", got, err)
	}
	if got, err := open(decls, ""); got != "default" {
		t.Errorf("default: %q, %v", got, err)
	}
	if got, err := open(decls, "two"); got != "two" {
		t.Errorf("by name: %q, %v", got, err)
	}
	var several *reason.Error
	if _, err := open(decls[:2], ""); !asReason(err, &several) || several.Code != reason.UnknownWorkspace ||
		!strings.Contains(several.Message, "several are declared: one, two") || !strings.Contains(several.NextStep(), "workspace=one") {
		t.Errorf("several and no default: %v", err)
	}
	if _, err := open(nil, ""); reason.Of(err) != reason.UnknownWorkspace {
		t.Errorf("none: %v", err)
	}
	_, err := open(decls, "three")
	var e *reason.Error
	if !asReason(err, &e) || e.Code != reason.UnknownWorkspace || e.Fields["declared"] != "default, one, two" {
		t.Errorf("unknown: %#v", err)
	}
}

func TestProtected(t *testing.T) {
	t.Parallel()
	protected := []string{
		".git", ".git/hooks", ".git/hooks/pre-commit", ".git/config", ".git/HEAD", ".GIT/head", ".hg/hgrc", ".bazelrc", "a/.terraformrc", ".pdbrc", "site/x.PTH", "policies/10-a.cedar", "X.Cedar", "palyra.toml", "etc/Palyra.toml", ".git/config.worktree", ".git/info/attributes", ".git/info/exclude",
		".git/modules/lib/config", ".git/modules/lib/hooks/post-checkout", ".git/modules/a/modules/b/config", ".git/worktrees/w/gitdir", ".git/commondir",
		".git/objects/info/alternates", "sub/.git", "sub/dir/.git/hooks/pre-push", ".gitmodules", "a/.gitconfig",
		".GIT/hooks/x", ".Git/Config", ".git./hooks/x", ".git /config", "git~1/hooks/x", "GIT~1/config", ".g\u200bit/hooks/x", ".git\u200d/config",
		".\uff47\uff49\uff54/config", ".g\u0131t/config", ".git::$INDEX_ALLOCATION/hooks/x", ".git\\hooks\\x", "a\\.git\\config", "./.git/config", ".git//hooks//x",
		".git/h\u200cooks/x", ".git/HOO\u212aS/x",
		".mcp.json", ".MCP.json", "pkg/.mcp.json", ".claude/settings.json", ".Claude/settings.local.json", ".cursor/mcp.json", ".vscode/tasks.json", ".VSCODE/settings.json",
		".idea/workspace.xml", ".devcontainer/devcontainer.json", ".codex/config.toml", "x.code-workspace", ".cursorrules",
		".bashrc", ".zshenv", ".profile", ".BASHRC", "home/.bash_profile", ".envrc", ".npmrc", ".yarnrc.yml", "pip.conf", ".cargo/config.toml", ".config/fish/config.fish",
		".ssh/authorized_keys", ".aws/credentials", ".husky/pre-commit", ".pre-commit-config.yaml",
		".github/workflows/ci.yml", ".GitHub/Workflows/ci.yml", ".github/actions/x/action.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", "azure-pipelines.yml",
		".clinerules/x.md", ".run/x.run.xml", ".config/mise.toml", "mise.local.toml", ".yarn/releases/yarn.cjs", ".mvn/wrapper/maven-wrapper.properties",
		"gradle/wrapper/gradle-wrapper.jar", "lefthook.toml", ".pnp.cjs", ".Rprofile", ".irbrc",
		".claude/worktrees", ".claude/worktrees/x/.claude/settings.json", ".claude/worktrees/x/.mcp.json", ".claude/worktrees/x/.git", ".codex/worktrees/x/a.go", ".worktrees/x/.claude/settings.json",
		".mcp.json.", ".mcp.json ", ".mcp.json:stream", ".mcp\u00ad.json", ".en\u017frc/../.envrc",
	}
	for _, p := range protected {
		if !Protected(p) {
			t.Errorf("%q is not protected", p)
		}
	}
	normal := []string{
		".", "", "main.go", "docs/a.md", ".gitignore", ".gitattributes", "git/config", "agit/.gitkeep", ".git/index", ".git/refs/heads/main", ".git/logs/HEAD",
		".git/refs/heads/hooks", ".git/objects/ab/cdef", ".git/packed-refs", "hooks/pre-commit", "config", "info/x", "claude/settings.json",
		".github/CODEOWNERS", ".github/ISSUE_TEMPLATE.md", "vscode/tasks.json", "bashrc", "tasks.json", ".config/app.toml", ".cargo/README.md", "README.md", "AGENTS.md", ".yarn/cache/x.zip", "gradle/libs.versions.toml", ".env.example", "git~2file/x"[4:],
		".claude/worktrees/x", ".claude/worktrees/x/src/main.go", ".worktrees/x/src/main.go",
	}
	for _, p := range normal {
		if Protected(p) {
			t.Errorf("%q is protected", p)
		}
	}
}

func FuzzProtected(f *testing.F) {
	f.Add("a", ".git/hooks/x")
	f.Add("", ".mcp.json")
	f.Fuzz(func(t *testing.T, dir, name string) {
		// Protected names are protected below any directory and in any case.
		if !Protected(name) || strings.ContainsAny(dir+name, "\\") {
			return
		}
		if !Protected(dir + "/" + name) {
			t.Fatalf("%q is protected, %q is not", name, dir+"/"+name)
		}
	})
}

// TestMissingDirectoryIsNamed: the error names the declaration, even if a parent directory is
// missing.
func TestMissingDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, at := range []string{filepath.Join(base, "gone"), filepath.Join(base, "gone", "deeper", "still")} {
		_, err := NewSet([]Declaration{{Name: "site", Path: at}}, stateDir(filepath.Join(base, "state")))
		var refused *reason.Error
		if !errors.As(err, &refused) || refused.Code != reason.ConfigInvalid || !strings.Contains(refused.NextStep(), "[[workspaces]]") ||
			!strings.Contains(refused.Message, `workspace "site"`) || !strings.Contains(refused.Message, at) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", at, err)
		}
	}
}
