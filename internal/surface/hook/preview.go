package hook

import (
	"context"
	"fmt"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/unified"
	"palyra/internal/exec/workspace"
)

// mostDiff bounds the diff of one call, and mostFile the file that is read for it, in
// bytes.
const mostDiff, mostFile = 256 << 10, 1 << 20

// replacement is one text replacement in a file.
type replacement struct {
	old, new string
	all      bool
}

// diff returns the changes of the call for approvers; "" if they cannot be shown. It reads only
// files of declared workspaces.
func (p *planned) diff(ctx context.Context) string {
	var text string
	switch {
	case p.row.line != "":
		text = p.line() // a patch is already a diff
	case len(p.at) != 1:
		return ""
	default:
		text = p.fileDiff(ctx, p.at[0])
	}
	if len(text) > mostDiff {
		p.note("The diff has %d bytes and is truncated; the arguments of the call are complete.", len(text))
		text = text[:mostDiff]
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	return text
}

func (p *planned) fileDiff(ctx context.Context, at place) string {
	name := at.rel
	if at.workspace == "" {
		name = strings.TrimPrefix(at.abs, "/")
	}
	was, exists, why := p.content(ctx, at)
	if why != "" {
		p.note("%s", why)
	}
	change := unified.File{NewPath: name, Old: was}
	if exists {
		change.OldPath = name
	}
	if content, ok := p.args["content"].(string); ok {
		change.New = []byte(content)
		return change.Diff()
	}
	edits := p.edits()
	if len(edits) == 0 {
		return ""
	}
	if !exists {
		return fragments(name, edits)
	}
	is := string(was)
	for _, e := range edits {
		n := strings.Count(is, e.old)
		switch {
		case e.old == "" || n == 0:
			p.note("The text to be replaced is not in the current file.")
			return fragments(name, edits)
		case e.all:
			is = strings.ReplaceAll(is, e.old, e.new)
		default:
			is = strings.Replace(is, e.old, e.new, 1)
		}
	}
	change.New = []byte(is)
	return change.Diff()
}

// fragments returns edits without the surrounding file.
func fragments(name string, edits []replacement) string {
	var b strings.Builder
	for _, e := range edits {
		b.WriteString(unified.File{OldPath: name, NewPath: name, Old: []byte(e.old), New: []byte(e.new)}.Diff())
	}
	return b.String()
}

// edits returns the replacements of Edit and MultiEdit.
func (p *planned) edits() []replacement {
	one := func(m map[string]any) (r replacement, ok bool) {
		old, has := m["old_string"].(string)
		is, both := m["new_string"].(string)
		all, _ := m["replace_all"].(bool)
		return replacement{old, is, all}, has && both
	}
	if r, ok := one(p.args); ok {
		return []replacement{r}
	}
	var list []replacement
	several, _ := p.args["edits"].([]any)
	for _, each := range several {
		if m, ok := each.(map[string]any); ok {
			if r, ok := one(m); ok {
				list = append(list, r)
			}
		}
	}
	return list
}

// content returns the current content of a workspace file; why is the reason if it is not shown.
func (p *planned) content(ctx context.Context, at place) (text []byte, exists bool, why string) {
	if at.workspace == "" {
		return nil, false, "The diff does not read the file: it is not in a declared workspace."
	}
	if at.linked {
		return nil, false, "The diff does not read the file: it is in a git worktree outside of its workspace."
	}
	root, err := p.workspaces.Open(at.workspace)
	if err != nil {
		return nil, false, "The diff does not show the file: the workspace cannot be opened."
	}
	defer root.Close()
	info, err := root.Stat(at.rel)
	switch {
	case reason.Of(err) == reason.FileNotFound:
		return nil, false, ""
	case err != nil || info.Kind != workspace.File || info.Size > mostFile:
		return nil, false, fmt.Sprintf("The diff does not show the file: it is not a regular file, or has more than %d bytes.", mostFile)
	}
	content, err := root.ReadFile(ctx, at.rel, 0, mostFile)
	if err != nil {
		return nil, false, "The diff does not show the file: it cannot be read."
	}
	return content.Data, true, ""
}
