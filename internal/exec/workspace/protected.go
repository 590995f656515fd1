package workspace

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"palyra/internal/core/text"
)

// Protected reports whether other programs take commands from a workspace-relative path
// implicitly. Such paths are git's hooks and configuration, the configuration of agents,
// editors, shells and package managers, the files of continuous integration, and Palyra's own
// policies and configuration. Names are compared like on the most tolerant file system:
// ".GIT/Hooks", ".git./hooks" and "GIT~1/hooks" count as ".git/hooks".
func Protected(rel string) bool {
	parts := foldedParts(rel)
	for i, part := range parts {
		rest := parts[i+1:]
		if part == ".git" && protectedGit(rest) {
			return true
		}
		if slices.Contains(protectedDirs, part) && !worktreeOf(part, rest) {
			return true
		}
		if protectedBelow(part, rest) {
			return true
		}
	}
	return len(parts) > 0 && protectedName(parts[len(parts)-1])
}

// ProtectedForWriting reports whether a path is Protected or is named HEAD in any directory. A
// directory with HEAD and a few other files is a git repository, and git runs commands from its
// configuration. Reading such a file is harmless.
func ProtectedForWriting(rel string) bool {
	parts := foldedParts(rel)
	return Protected(rel) || len(parts) > 0 && parts[len(parts)-1] == "head"
}

// worktreeOf reports whether the path below a protected directory is in a git worktree there,
// as Claude Code creates them. Programs take commands only from its files with names that are
// protected in every directory.
func worktreeOf(dir string, rest []string) bool {
	return dir == ".claude" && len(rest) > 1 && rest[0] == "worktrees"
}

// gitEntries are the entries that configure git in a repository, a submodule or a worktree.
var gitEntries = []string{"hooks", "config", "config.worktree", "info", "commondir", "gitdir"}

// protectedGit checks the path below a directory named .git. Objects, refs, the index and logs
// are not protected.
func protectedGit(rest []string) bool {
	if len(rest) == 0 {
		return true
	}
	if slices.Contains(gitEntries, rest[0]) {
		return true
	}
	switch rest[0] {
	case "head":
		return len(rest) == 1
	case "modules", "worktrees":
		return slices.ContainsFunc(rest[1:], func(p string) bool { return slices.Contains(gitEntries, p) })
	case "objects":
		return slices.Equal(rest[1:], []string{"info", "alternates"})
	}
	return false
}

// protectedDirs are names of directories that are protected with all their content, at any
// depth.
var protectedDirs = []string{
	// Agents and editors.
	".claude", ".cursor", ".codex", ".gemini", ".windsurf", ".continue", ".roo", ".kiro", ".amazonq", ".junie", ".opencode",
	".clinerules", ".vscode", ".idea", ".run", ".fleet", ".zed", ".devcontainer", ".vim", ".nvim", ".emacs.d",
	// Hook managers and environment loaders.
	".husky", ".githooks", ".direnv", ".mise",
	// Credentials and personal configuration.
	".ssh", ".gnupg", ".aws", ".kube", ".docker",
	// Continuous integration.
	".circleci", ".buildkite", ".woodpecker", ".teamcity", ".tekton", ".semaphore",
}

// protectedEntries are directories of which only some entries are protected; a "*" at the end of
// an entry matches any ending.
var protectedEntries = map[string][]string{
	".github":  {"workflows", "actions"},
	".gitea":   {"workflows", "actions"},
	".forgejo": {"workflows", "actions"},
	".config":  {"git", "fish", "nvim", "mise*", "direnv", "systemd", "autostart"},
	".cargo":   {"config", "config.toml", "credentials*"},
	".gitlab":  {"ci"},
	".yarn":    {"releases", "plugins", "sdks"},
	".mvn":     {"wrapper", "extensions.xml"},
	"gradle":   {"wrapper"},
	".hg":      {"hgrc*"},
}

// protectedBelow checks the path below a directory of protectedEntries.
func protectedBelow(dir string, rest []string) bool {
	return len(rest) > 0 && slices.ContainsFunc(protectedEntries[dir], func(entry string) bool {
		if start, open := strings.CutSuffix(entry, "*"); open {
			return strings.HasPrefix(rest[0], start)
		}
		return rest[0] == entry
	})
}

// protectedNames are names of files that are protected in any directory.
var protectedNames = []string{
	// Git.
	".gitconfig", ".gitmodules", ".pre-commit-config.yaml", "lefthook.yml", "lefthook.yaml", ".lefthook.yml", "lefthook-local.yml",
	"lefthook.toml", "lefthook.json", ".overcommit.yml",
	// Agents and editors.
	".mcp.json", "mcp.json", ".claude.json", ".cursorrules", ".windsurfrules", ".clinerules", ".roomodes", ".aider.conf.yml",
	".devcontainer.json", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".gvimrc", ".emacs", ".dir-locals.el",
	// Shells and the files that they load.
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".login", ".logout",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".inputrc", "config.fish",
	".envrc", ".mise.toml", "mise.toml", ".mise.local.toml", "mise.local.toml", ".tool-versions", ".tmux.conf",
	// Package managers and tools that take commands from a file.
	".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".pnpmfile.mjs", ".pnp.cjs", ".pnp.loader.mjs", "pnpm-workspace.yaml", ".pypirc", "pip.conf", ".netrc", ".curlrc", ".wgetrc",
	".gdbinit", ".lldbinit", ".irbrc", ".pryrc", ".rprofile", ".ghci", ".pdbrc", "sitecustomize.py", "usercustomize.py", ".hgrc", ".bazelrc", ".terraformrc",
	// Continuous integration.
	".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", "jenkinsfile", "azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml",
	".drone.yml", ".woodpecker.yml", ".woodpecker.yaml", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", "cloudbuild.yaml", "cloudbuild.yml",
	"buildspec.yml",
	// Palyra.
	"palyra.toml",
}

// protectedEnds are suffixes of protected files: workspaces of editors, files that Python
// executes at its start, and policies.
var protectedEnds = []string{".code-workspace", ".pth", ".cedar"}

// Pattern is a path that is protected in any directory, such as ".git/hooks": names in lower
// case, in which "*" matches any part of a name.
type Pattern struct {
	Path string
	// Below is true if everything below the path is protected as well.
	Below bool
}

// ProtectedPatterns returns the lists that Protected uses, for sandboxes that translate them into
// their own rules (Seatbelt profiles). Below git submodules and worktrees the patterns cover more
// than Protected does.
func ProtectedPatterns() []Pattern {
	patterns := []Pattern{{Path: ".git"}, {Path: ".git/head"}}
	below := func(names ...string) {
		for _, name := range names {
			patterns = append(patterns, Pattern{Path: name, Below: true})
		}
	}
	for _, entry := range gitEntries {
		below(".git/" + entry)
	}
	below(".git/modules", ".git/worktrees", ".git/objects/info/alternates")
	below(protectedDirs...)
	for _, dir := range slices.Sorted(maps.Keys(protectedEntries)) {
		for _, entry := range protectedEntries[dir] {
			below(dir + "/" + entry)
		}
	}
	below(protectedNames...)
	for _, end := range protectedEnds {
		below("*" + end)
	}
	return patterns
}

func protectedName(name string) bool {
	return slices.Contains(protectedNames, name) ||
		slices.ContainsFunc(protectedEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

func foldedParts(rel string) []string {
	split := strings.FieldsFunc(rel, func(r rune) bool { return r == '/' || r == '\\' })
	parts := make([]string, 0, len(split))
	for _, part := range split {
		if part = Fold(part); part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}

// Fold returns a name in the form in which the most tolerant file system compares it. Example:
// "MAKEFILE." becomes "makefile", because Windows drops the trailing dot.
func Fold(name string) string {
	name = norm.NFKC.String(name)
	name = strings.Map(func(r rune) rune {
		if text.Ignorable(r) || unicode.IsControl(r) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, name)
	name = norm.NFKC.String(text.FoldCase(name))
	if i := strings.IndexByte(name, ':'); i > 0 {
		name = name[:i]
	}
	// ".." and "." stay unchanged; other trailing dots and spaces are removed.
	if trimmed := strings.TrimRight(name, ". "); trimmed != "" {
		name = trimmed
	}
	if strings.HasPrefix(name, "git~") {
		return ".git"
	}
	return name
}
