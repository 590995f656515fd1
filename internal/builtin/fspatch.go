package builtin

import (
	"context"
	"fmt"
	"strings"

	"palyra/internal/clip"
	"palyra/internal/reason"
	"palyra/internal/tool"
	"palyra/internal/workspace/unified"
)

const fsPatchName = "fs.patch"

// fsPatch applies a unified diff.
type fsPatch struct{ files }

type patchInput struct {
	Patch     string `json:"patch"`
	Workspace string `json:"workspace"`
}

func (fsPatch) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: fsPatchName, Title: "Apply a patch",
		Description: "Apply a unified diff, as git diff writes it, to files of a workspace: all of it or nothing. Context and removed lines must be in the file " +
			"exactly at the line that the hunk names; there is no fuzz. Files can be changed, created (from /dev/null), deleted (to /dev/null) and renamed " +
			"(rename from, rename to). Paths are relative to the workspace. Binary patches and symbolic links are refused.",
		InputSchema: schema(`"patch"`,
			`"patch": {"type": "string", "minLength": 1, "maxLength": 1000000, "description": "The unified diff, with its line ends."}`,
			workspaceProperty,
		),
		Capabilities: []tool.Capability{tool.FilesystemWrite}, Executor: tool.Builtin, Destructive: true,
	}
}

func (t fsPatch) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	return planEdit(t.edit(ctx, p))
}

// Prepare works the changes out anew; Run makes these.
func (t fsPatch) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	return prepareEdit(t.edit(ctx, p))
}

func patchSummary(e *edit) string {
	paths := e.paths()
	summary := fmt.Sprintf("Change %q in workspace %s.", paths[0], e.root.Name())
	if len(paths) > 1 {
		summary = fmt.Sprintf("Change %d files in workspace %s: %s.", len(paths), e.root.Name(), clip.Ellipsis(strings.Join(paths, ", "), 300))
	}
	return summary
}

// edit works out the changes. The caller closes its root.
func (t fsPatch) edit(ctx context.Context, p tool.Proposal) (*edit, error) {
	in, err := decode[patchInput](p.Input)
	if err != nil {
		return nil, err
	}
	patches, err := parsePatch(in.Patch)
	if err != nil {
		return nil, err
	}
	root, err := t.set.Open(in.Workspace)
	if err != nil {
		return nil, err
	}
	e := &edit{tool: fsPatchName, version: t.version, summary: patchSummary, root: root}
	err = e.writable()
	seen := map[string]bool{}
	for _, f := range patches {
		if err == nil {
			err = e.patch(ctx, f, seen)
		}
	}
	if err == nil {
		err = e.root.Judge(e.changes)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return e, nil
}

// patch adds the changes of one file.
func (e *edit) patch(ctx context.Context, f filePatch, seen map[string]bool) error {
	var from, to string
	var was, target present
	var err error
	if f.oldPath != "" {
		if from, was, err = e.claim(ctx, f.oldPath, seen); err != nil {
			return err
		}
		if !was.exists {
			return reason.Errorf(reason.FileNotFound, "%q does not exist, so it cannot be patched", from)
		}
	}
	if f.newPath != "" && f.newPath != f.oldPath {
		if to, target, err = e.claim(ctx, f.newPath, seen); err != nil {
			return err
		}
		if target.exists {
			return reason.Errorf(reason.PatchConflict, "%q exists already", to)
		}
	}
	content, err := f.apply(was.content)
	if err != nil {
		return err
	}
	switch {
	case f.newPath == "":
		e.remove(from, was)
	case f.newPath == f.oldPath:
		e.put(from, was, content, f.executable)
	case f.oldPath == "":
		e.put(to, present{}, content, f.executable)
	default:
		e.rename(from, to, was, content, f.executable)
	}
	return nil
}

// claim resolves a path of the patch and refuses to name a file twice.
func (e *edit) claim(ctx context.Context, name string, seen map[string]bool) (string, present, error) {
	real, err := e.root.Target(name)
	if err != nil {
		return "", present{}, err
	}
	if seen[real] {
		return "", present{}, reason.Errorf(reason.InvalidInput, "the patch names %q twice", real)
	}
	seen[real] = true
	was, err := e.now(ctx, real)
	return real, was, err
}

// rename adds a deletion and a creation that keeps the execute bits.
func (e *edit) rename(from, to string, was present, content []byte, executable *bool) {
	if executable == nil {
		runs := was.mode&0o100 != 0
		executable = &runs
	}
	e.remove(from, was)
	e.put(to, present{}, content, executable)
	last := len(e.diffs) - 1
	e.diffs = append(e.diffs[:last-1], unified.File{
		OldPath: from, NewPath: to, Old: was.content, New: content,
		OldMode: gitMode(was.mode, nil), NewMode: gitMode(was.mode, executable),
	})
}
