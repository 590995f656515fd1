package hook

import (
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/agent/files"
	"palyra/internal/core/tool"
)

// place is the location that a path of a call resolves to.
type place struct {
	// workspace and rel are "" outside of the declared workspaces.
	workspace, rel string
	// linked is true for a file in a git worktree outside of its repository's workspace. rel is
	// then the corresponding path in that workspace.
	linked bool
	// abs is the absolute path without links, or the path as written if it cannot be resolved.
	abs string
}

// locate resolves a path that the agent names. A path that cannot be resolved is outside.
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
	held, rel, real, err := t.workspaces.Containing(name)
	if err != nil {
		return place{abs: filepath.Clean(name)}
	}
	if held != "" {
		return place{workspace: held, rel: rel, abs: real}
	}
	held, rel = t.workspaces.Worktree(real)
	return place{workspace: held, rel: rel, linked: held != "", abs: real}
}

// resolved returns guards plus the same guards with the links of their paths resolved.
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

// covers reports whether a path is guarded, in any spelling that a file system treats as the same.
func (t *Tools) covers(path string) bool {
	_, guarded := files.Match(t.guards, path)
	return guarded
}

// guardedIn returns the guarded paths that a shell command may write to, as far as it names
// them. A command can hide a path: the check can only tighten a decision, and an empty result
// proves nothing.
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

// guardedAmong returns the guarded paths among the words of a text in any language.
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

// writing reports whether a tool of this act may write to the paths that it names.
func writing(act tool.Act) bool {
	return slices.Contains([]tool.Act{tool.ActWrite, tool.ActShell, tool.ActInput, tool.ActUnknown}, act)
}
