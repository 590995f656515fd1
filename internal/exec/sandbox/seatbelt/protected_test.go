package seatbelt

import (
	"regexp"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/workspace"
)

const root = "/opt/acme/a+b (c)/.claude/w"

// compiled are the denials of a profile as regular expressions.
type compiled struct{ writes, pins, repositories, except []*regexp.Regexp }

func compile(t testing.TB, extra ...string) compiled {
	t.Helper()
	d := must.Get(deny([]string{root}, extra))(t)
	each := func(list []string) (out []*regexp.Regexp) {
		for _, text := range list {
			if strings.ContainsAny(text, `"\`) {
				t.Fatalf("%s cannot stand in a profile", text)
			}
			re := must.Get(regexp.Compile(text))(t)
			out = append(out, re)
		}
		return out
	}
	return compiled{each(d.writes), each(d.pins), each(d.repositories), each(d.except)}
}

func matches(list []*regexp.Regexp, rel string) bool {
	for _, re := range list {
		if re.MatchString(root + "/" + rel) {
			return true
		}
	}
	return false
}

// denied reports whether a file with a name cannot be written. pinned reports whether a
// directory cannot be created or moved.
func (c compiled) denied(rel string) bool {
	return matches(c.writes, rel) || matches(c.repositories, rel) && !matches(c.except, rel)
}

func (c compiled) pinned(rel string) bool { return c.denied(rel) || matches(c.pins, rel) }

func TestProtectedNames(t *testing.T) {
	t.Parallel()
	c := compile(t, "secrets", "build/out", "**/*.sealed", "deep/**/x")
	for _, rel := range []string{
		".git", ".git/hooks", ".git/hooks/pre-commit", ".git/config", ".git/info/exclude", ".git/HEAD", "sub/deep/.git/hooks/x",
		".GIT/Hooks/x", ".git/modules/x/config", ".git/objects/info/alternates", ".mcp.json", "a/.MCP.json", ".claude/settings.json",
		".vscode/tasks.json", ".VSCode/x", ".npmrc", "x.pth", "a.b.PTH", "p.cedar", "Jenkinsfile", ".github/workflows/ci.yml", ".cargo/credentials.toml",
		".config/git/config", ".hg/hgrc", ".hg/hgrc.local", "HEAD", "bare/HEAD", "bare/head", "palyra.toml",
		// Names are compared like on a case-insensitive file system.
		".ßh/config", ".\u017fsh/config", ".\u212Aube/config", "\ufb01x/.con\ufb01g/git/config", "sitecu\ufb06omize.py",
		"secrets", "a/secrets/x", "build/out", "build/out/x", "go.sealed", "a/b/yarn.sealed", "deep/anything",
	} {
		if !c.denied(rel) {
			t.Errorf("%s can be written", rel)
		}
	}
	for _, rel := range []string{
		"main.go", ".git/objects/ab/cdef", ".git/objects/pack/p.pack", ".git/refs/heads/main", ".git/index", ".git/index.lock", ".git/logs/HEAD",
		".git/refs/remotes/origin/HEAD", ".git/COMMIT_EDITMSG", ".gitignore", "git/hooks/x", "a.git/config", ".github/ISSUE_TEMPLATE/x", ".cargo/registry", "HEADER", "npmrc",
		"a/build/out", "secretsx", "x.sealedfile",
	} {
		if c.denied(rel) {
			t.Errorf("%s cannot be written", rel)
		}
	}
}

// A program cannot add protected files by moving a directory away, filling it and moving it
// back.
func TestDirectoriesAreHeld(t *testing.T) {
	t.Parallel()
	c := compile(t, "build/out")
	for _, rel := range []string{".git", ".github", "a/.Github", ".config", ".cargo", ".hg", ".gitlab", ".git/modules/x", ".git/objects/info", ".git/objects", "build"} {
		if !c.pinned(rel) {
			t.Errorf("%s can be made or moved", rel)
		}
	}
	for _, rel := range []string{"src", "a/build", ".git/objects/ab", ".git/refs/heads/topic"} {
		if c.pinned(rel) {
			t.Errorf("%s cannot be made or moved", rel)
		}
	}
}

// The root of the workspace may itself be below a protected name, and contain special characters
// of regular expressions.
func TestProtectedBelongsToTheWorkspace(t *testing.T) {
	t.Parallel()
	c := compile(t)
	for _, other := range []string{"/opt/acme/aab (c)/.claude/w/.npmrc", "/x" + root + "/.npmrc", "/opt/acme/.npmrc"} {
		for _, re := range c.writes {
			if re.MatchString(other) {
				t.Errorf("%s matches %s", re, other)
			}
		}
	}
	if c.denied("plain.txt") {
		t.Error("everything is denied in a workspace below .claude")
	}
}

func TestTooManySpellings(t *testing.T) {
	t.Parallel()
	if _, err := deny([]string{root}, []string{strings.Repeat("ff", 200)}); err == nil {
		t.Error("a pattern with a million spellings was accepted")
	}
}

// The kernel also denies all names that the gateway protects.
func FuzzProtected(f *testing.F) {
	for _, p := range workspace.ProtectedPatterns() {
		f.Add("sub/" + strings.ReplaceAll(p.Path, "*", "x"))
		f.Add(strings.ToUpper(p.Path) + "/below")
	}
	f.Add(".git/modules/a/b/hooks/x")
	f.Add(".git/worktrees/a/gitdir")
	c := compile(f)
	ordinary := regexp.MustCompile(`^[A-Za-z0-9_-]*([.][A-Za-z0-9_-]+)+$|^[A-Za-z0-9_-]+$`)
	f.Fuzz(func(t *testing.T, rel string) {
		for name := range strings.SplitSeq(rel, "/") {
			if !ordinary.MatchString(name) {
				return
			}
		}
		if workspace.ProtectedForWriting(rel) && !c.denied(rel) && !matches(c.except, rel) {
			t.Fatalf("%s is protected and can be written", rel)
		}
	})
}
