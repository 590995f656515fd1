//go:build linux

package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// fileRows are FS-01 to FS-08: files outside of the workspace, and files that a program must
// not leave in the workspace for other programs to trust.
func fileRows() []row {
	var rows []row
	add := func(r row) { rows = append(rows, r) }

	const matrix = "Kilo-Org/kilocode#11596"
	for _, how := range []string{"overwrite", "append", "truncate", "unlink", "rename", "create", "mmap"} {
		add(row{id: "FS-01", variant: how, source: matrix, walls: layers(root, landlock), probe: probe(how), prepare: (*scene).aim, effect: outside})
	}
	// Landlock does not govern these calls.
	for _, how := range []string{"utimes", "setxattr"} {
		add(row{id: "FS-01", variant: how, source: matrix, walls: layers(root), probe: probe(how), prepare: (*scene).aim, effect: outside})
	}
	add(row{id: "FS-01", variant: "chmod", source: matrix, walls: layers(root), rootWalls: layers(otherUser), probe: probe("chmod"), prepare: (*scene).aim, effect: outside})

	const secrets = "trpc#2605, claude-code#84863"
	for _, s := range []struct{ variant, file string }{
		{"~/.ssh", "home/.ssh/id_ed25519"}, {"~/.aws", "home/.aws/credentials"},
		{"another workspace", "workspaces/other/notes.txt"}, {"palyrad's state", "state/journal.db"},
	} {
		add(row{id: "FS-02", variant: s.variant, source: secrets, walls: layers(root, landlock), probe: probe("read"),
			prepare: func(c *scene) { c.aimAt(c.plant(s.file, 0o644)) }})
	}
	add(row{id: "FS-02", variant: "a file of palyrad's user alone", source: secrets, walls: layers(root, landlock), rootWalls: layers(otherUser),
		probe: probe("read"), prepare: func(c *scene) { c.aimAt(c.plant("private", 0o600)) }})
	add(row{id: "FS-02", variant: "/etc/shadow", source: secrets, root: true, walls: layers(root), rootWalls: layers(otherUser),
		probe: probe("proc-entry"), prepare: func(c *scene) { c.aimAt("/etc/shadow") }})
	add(row{id: "FS-02", variant: "directories of the host", source: secrets, walls: layers(root), probe: probe("list"),
		prepare: func(c *scene) { c.aimAt(c.outside) }})

	for _, how := range []string{"absolute", "relative", "chained", "swapped", "ancestor"} {
		add(row{id: "FS-03", variant: "symbolic link, " + how, source: "librefang#6299", walls: layers(root, landlock),
			probe: probe("link-" + how), prepare: (*scene).aim, effect: outside})
	}
	add(row{id: "FS-04", variant: "hard link made before the run", source: "kilocode#11596, KiroCrew#12641, #12123", walls: layers(copyLayer),
		probe: probe("append", "alias"), effect: outside, prepare: func(c *scene) { c.must(os.Link(c.canary, filepath.Join(c.workspace, "alias"))) }})
	add(row{id: "FS-04", variant: "hard link, mapped", source: "kilocode#11596, KiroCrew#12641, #12123", walls: layers(copyLayer),
		probe: probe("mmap", "alias"), effect: outside, prepare: func(c *scene) { c.must(os.Link(c.canary, filepath.Join(c.workspace, "alias"))) }})

	return append(rows, trustRows()...)
}

// trustRows leave a file behind that another program would run later. The file must not appear
// in the workspace before the commit gate accepts it.
func trustRows() []row {
	var rows []row
	const git = "codex#37081, koda#1088, posthog#87021, defenseclaw#573, CVE-2026-55607"
	leave := func(id, variant, source string, pairs ...string) {
		rows = append(rows, row{id: id, variant: variant, source: source, walls: layers(copyLayer), effect: inside,
			probe: append([]string{"put"}, pairs...), prepare: (*scene).repository})
	}
	for _, hook := range []string{"pre-commit", "post-checkout", "fsmonitor-watchman"} {
		leave("FS-05", ".git/hooks/"+hook, git, ".git/hooks/"+hook, "#!/bin/sh\n")
	}
	for _, key := range [][2]string{
		{"core", "hooksPath"}, {"core", "fsmonitor"}, {"core", "sshCommand"}, {`filter "evil"`, "smudge"}, {"diff", "external"}, {"include", "path"},
	} {
		leave("FS-05", key[0]+" "+key[1], git, ".git/config", fmt.Sprintf("[%s]\n\t%s = ./evil\n", key[0], key[1]))
	}
	leave("FS-05", ".gitattributes and a filter", git, ".gitattributes", "* filter=evil\n", ".git/config", "[filter \"evil\"]\n\tclean = ./evil\n")
	leave("FS-05", ".git as a file", git, "sub/.git", "gitdir: ../elsewhere\n", "elsewhere/config", "[core]\n\tfsmonitor = ./evil\n")
	leave("FS-05", ".git/config.worktree", git, ".git/config.worktree", "[core]\n\tfsmonitor = ./evil\n")
	leave("FS-05", "commondir", git, ".git/commondir", "../elsewhere\n")
	leave("FS-05", "nested repository", git, "vendor/x/.git/config", "[core]\n\tfsmonitor = ./evil\n", "vendor/x/.git/HEAD", "ref: refs/heads/main\n")
	leave("FS-05", "submodule", git, ".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ./x\n\tupdate = !./evil\n",
		".git/modules/x/config", "[core]\n\tfsmonitor = ./evil\n")
	leave("FS-05", "bare repository", git, "docs/HEAD", "ref: refs/heads/main\n", "docs/config", "[core]\n\tbare = true\n\tfsmonitor = ./evil\n", "docs/objects/x", "", "docs/refs/x", "")
	// The attack uses git itself to write to a protected path.
	for _, command := range [][]string{
		{"git", "init", "--separate-git-dir=elsewhere", "sub"},
		{"git", "show", "--output=.git/hooks/post-merge"},
	} {
		rows = append(rows, row{id: "FS-05", variant: strings.Join(command[:3], " "), source: git, walls: layers(copyLayer), effect: inside,
			prepare: func(c *scene) { c.repository(); c.program(command...) }})
	}
	rows = append(rows, row{id: "FS-06", variant: "mv .git and a new one", source: "kilocode#11596", walls: layers(copyLayer),
		probe: probe("mv-git"), prepare: (*scene).repository, effect: inside})

	const agent = "CVE-2026-25725, agentcage#173, cplt#333, #421"
	for _, name := range []string{
		".mcp.json", ".claude/settings.json", ".claude/settings.local.json", ".claude/hooks/pre", ".cursor/mcp.json", ".cursor/rules/x.mdc",
		".vscode/tasks.json", ".envrc", ".npmrc", "package.json", "Makefile", "conftest.py", ".pre-commit-config.yaml",
	} {
		leave("FS-07", name, agent, name, "evil\n")
	}
	const folding = "case-insensitive stores"
	for _, name := range []struct{ variant, path string }{
		{"upper case", ".GIT/hooks/pre-commit"}, {"mixed case", ".Mcp.Json"}, {"joiner", ".g\u200cit/config"}, {"full width", ".\uff4d\uff43\uff50.json"},
		{"short name", "GIT~1/config"}, {"trailing dot", ".git./config"},
	} {
		leave("FS-08", name.variant, folding, name.path, "evil\n")
	}
	return rows
}
