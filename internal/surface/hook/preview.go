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

// replacement is one edit of a file by its text.
type replacement struct {
	old, new string
	all      bool
}

// diff is what the call would change, as people see it; "" where that cannot be shown.
// Only files of declared workspaces are read for it.
func (p *planned) diff(ctx context.Context) string {
	var text string
	switch {
	case p.row.line != "":
		text = p.line() // a patch is one already
	case len(p.at) != 1:
		return ""
	default:
		text = p.fileDiff(ctx, p.at[0])
	}
	if len(text) > mostDiff {
		p.note("The diff has %d bytes and is cut; the arguments of the call are complete.", len(text))
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
			p.note("The text that is to be replaced is not in the file as it is now.")
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

// fragments shows edits without the file around them.
func fragments(name string, edits []replacement) string {
	var b strings.Builder
	for _, e := range edits {
		b.WriteString(unified.File{OldPath: name, NewPath: name, Old: []byte(e.old), New: []byte(e.new)}.Diff())
	}
	return b.String()
}

// edits are what Edit and MultiEdit replace.
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

// content is what a file of a workspace holds now; why says that it is not shown.
func (p *planned) content(ctx context.Context, at place) (text []byte, exists bool, why string) {
	if at.workspace == "" {
		return nil, false, "The file is not read for the diff: it is in no declared workspace."
	}
	if at.linked {
		return nil, false, "The file is not read for the diff: it is in a worktree beside its workspace."
	}
	root, err := p.workspaces.Open(at.workspace)
	if err != nil {
		return nil, false, "The workspace cannot be opened, so that the diff does not show the file."
	}
	defer root.Close()
	info, err := root.Stat(at.rel)
	switch {
	case reason.Of(err) == reason.FileNotFound:
		return nil, false, ""
	case err != nil || info.Kind != workspace.File || info.Size > mostFile:
		return nil, false, fmt.Sprintf("The file cannot be shown: it is none, or has more than %d bytes.", mostFile)
	}
	content, err := root.ReadFile(ctx, at.rel, 0, mostFile)
	if err != nil {
		return nil, false, "The file cannot be read, so that the diff does not show it."
	}
	return content.Data, true, ""
}
