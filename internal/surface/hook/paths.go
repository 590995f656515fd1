package hook

import (
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/agent/files"
	"palyra/internal/core/tool"
)

// place is where a path of a call leads.
type place struct {
	// workspace and rel are "" for what is in no declared workspace.
	workspace, rel string
	// linked is true in a worktree beside the workspace of its repository: rel is the path that
	// the file has there.
	linked bool
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
	if held != "" {
		return place{workspace: held, rel: rel, abs: real}
	}
	held, rel = t.workspaces.Worktree(real)
	return place{workspace: held, rel: rel, linked: held != "", abs: real}
}

// resolved are guards with the links of their paths resolved, beside them.
func resolved(guards []files.Guarded) []files.Guarded {
	out := slices.Clone(guards)
	for _, g := range guards {
		if real, err := filepath.EvalSymlinks(g.Path); err == nil && !g.Anywhere && real != g.Path {
			g.Path = real
			out = append(out, g)
		}
	}
	return out
}

// covers reports whether a path is guarded, in whatever spelling of it a file system
// takes for the same.
func (t *Tools) covers(path string) bool {
	_, guarded := files.Match(t.guards, path)
	return guarded
}

// guardedIn are the guarded paths that a line for a shell may write to, as far as it spells
// them out. A line can hide one: this tightens what is honest, and proves nothing.
func (t *Tools) guardedIn(line, cwd string) []string {
	if t.home != "" {
		line = strings.NewReplacer("${HOME}", t.home, "$HOME", t.home, " ~/", " "+t.home+"/", ">~/", ">"+t.home+"/").Replace(line)
	}
	var found []string
	for _, text := range maybeWritten(line) {
		found = append(found, t.guardedAmong(text, cwd)...)
	}
	return found
}

// guardedAmong are the guarded paths among the words of a text, in whatever language it is.
func (t *Tools) guardedAmong(text, cwd string) []string {
	var found []string
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`;|&<>()={},:", r) }) {
		if at := t.locate(word, cwd); strings.ContainsAny(word, `/.\`) && (t.covers(at.abs) || t.covers(word)) {
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
