package hook

import (
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/tool"
	"palyra/internal/workspace"
)

// place is where a path of a call leads.
type place struct {
	// workspace and rel are "" for what is in no declared workspace.
	workspace, rel string
	// abs is the absolute path without links, or the path as it was written where that
	// cannot be said.
	abs string
}

// locate resolves a path as the agent names it. What cannot be resolved is outside.
func (t *Tools) locate(name, cwd string) place {
	written := name
	switch home := t.home; {
	case name == "~" || strings.HasPrefix(name, "~/"):
		if home == "" {
			return place{abs: written}
		}
		name = filepath.Join(home, strings.TrimPrefix(name, "~"))
	case !filepath.IsAbs(name):
		if !filepath.IsAbs(cwd) {
			return place{abs: written}
		}
		name = filepath.Join(cwd, name)
	}
	held, rel, real, err := t.workspaces.Holding(name)
	if err != nil {
		return place{abs: filepath.Clean(name)}
	}
	return place{workspace: held, rel: rel, abs: real}
}

// Guard says which files decide what agents and the gateway run. Paths are absolute.
type Guard struct {
	// Dirs are guarded with all that is in them, Files alone.
	Dirs, Files []string
}

// resolved is the guard with the links of its paths resolved, beside them.
func (g Guard) resolved() Guard {
	return Guard{both(g.Dirs), both(g.Files)}
}

func both(paths []string) []string {
	out := make([]string, 0, 2*len(paths))
	for _, p := range paths {
		if p == "" {
			continue
		}
		out = append(out, fold(p))
		if real, err := filepath.EvalSymlinks(p); err == nil {
			out = append(out, fold(real))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func fold(path string) string { return workspace.FoldCase(filepath.ToSlash(filepath.Clean(path))) }

// configured are the files of agents that say what they run, by their ends, wherever
// they are: a project has them as well as a home.
var configured = []string{
	"/.claude/settings.json", "/.claude/settings.local.json", "/.claude.json", "/.mcp.json", "/managed-settings.json", "/managed-mcp.json",
	"/.codex/config.toml", "/.codex/hooks.json", "/.codex/requirements.toml", "/.codex/managed_config.toml",
	"/.cursor/mcp.json", "/.cursor/hooks.json", "/.vscode/mcp.json",
}

// configuredDirs are directories of which every file does.
var configuredDirs = []string{"/.claude/hooks/", "/.claude/plugins/", "/.codex/rules/", "/.cursor/hooks/"}

// covers reports whether a path is guarded, in whatever spelling of it a file system
// takes for the same.
func (g Guard) covers(path string) bool {
	folded := fold(path)
	rooted := "/" + strings.TrimPrefix(folded, "/")
	in := func(dir string) bool {
		return folded == dir || strings.HasPrefix(folded, strings.TrimSuffix(dir, "/")+"/")
	}
	return slices.ContainsFunc(g.Dirs, in) || slices.Contains(g.Files, folded) ||
		slices.ContainsFunc(configured, func(end string) bool { return strings.HasSuffix(rooted, end) }) ||
		slices.ContainsFunc(configuredDirs, func(dir string) bool { return strings.Contains(rooted+"/", dir) })
}

// guardedIn are the guarded paths that a line for a shell, or a patch, spells out. Who
// wants to hide one can: this tightens what is honest, and proves nothing.
func (t *Tools) guardedIn(line, cwd string) []string {
	var found []string
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`;|&<>()={},:", r) }) {
		for from, to := range map[string]string{"$HOME": t.home, "${HOME}": t.home} {
			word = strings.ReplaceAll(word, from, to)
		}
		if at := t.locate(word, cwd); strings.ContainsAny(word, `/.\`) && (t.guard.covers(at.abs) || t.guard.covers(word)) {
			found = append(found, at.abs)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// writing reports whether a tool of this act may write to what it names.
func writing(act tool.Act) bool {
	return slices.Contains([]tool.Act{tool.ActWrite, tool.ActShell, tool.ActInput, tool.ActUnknown}, act)
}
