package builtin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/core/unified"
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

// Prepare computes the changes again; Run makes exactly these changes.
func (t fsPatch) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	return prepareEdit(t.edit(ctx, p))
}

func patchSummary(e *edit) string {
	paths := e.paths()
	summary := fmt.Sprintf("Change %q in workspace %s.", paths[0], e.root.Name())
	if len(paths) > 1 {
		summary = fmt.Sprintf("Change %s in workspace %s: %s.", text.Plural(len(paths), "file"), e.root.Name(), text.Ellipsis(strings.Join(paths, ", "), 300))
	}
	return summary
}

// edit computes the changes. The caller closes its root.
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
	e := &edit{tool: fsPatchName, version: t.version, summary: patchSummary, root: root, protected: t.policies[root.Name()].Protected}
	if err := e.patchAll(ctx, patches); err != nil {
		root.Close()
		return nil, err
	}
	return e, nil
}

// patchAll adds the changes of all files. It resolves all paths before it reads any file.
func (e *edit) patchAll(ctx context.Context, patches []filePatch) error {
	if err := e.writable(); err != nil {
		return err
	}
	claims := make([]claim, len(patches))
	for i, f := range patches {
		var err error
		if claims[i], err = e.claim(f); err != nil {
			return err
		}
	}
	for _, c := range claims {
		if err := e.patch(ctx, c); err != nil {
			return e.restrict(err)
		}
	}
	return e.restrict(e.root.Judge(e.changes))
}

// claim is the patch of one file with resolved paths. from is empty for a new file, to for a
// deleted file; they differ for a renamed file.
type claim struct {
	filePatch
	from, to string
}

// claim resolves the paths of a patch and refuses to name a file twice.
func (e *edit) claim(f filePatch) (claim, error) {
	c := claim{filePatch: f}
	var err error
	if f.oldPath != "" {
		risk := riskChange
		if f.newPath != f.oldPath {
			risk = riskDelete
		}
		if c.from, err = e.resolveOnce(f.oldPath, risk, f.executable); err != nil {
			return c, err
		}
	}
	switch f.newPath {
	case "":
	case f.oldPath:
		c.to = c.from
	default:
		c.to, err = e.resolveOnce(f.newPath, riskCreate, f.executable)
	}
	return c, err
}

func (e *edit) resolveOnce(name string, risk int, executable *bool) (string, error) {
	before := e.targets
	real, err := e.resolveTarget(name, risk, executable)
	if err == nil && slices.Contains(before, real) {
		return "", reason.Errorf(reason.InvalidInput, "the patch names %q twice", real)
	}
	return real, err
}

// patch adds the changes of one file.
func (e *edit) patch(ctx context.Context, c claim) error {
	var was present
	var err error
	if c.from != "" {
		if was, err = e.now(ctx, c.from); err != nil {
			return err
		}
		if !was.exists {
			return reason.Errorf(reason.FileNotFound, "%q does not exist, so it cannot be patched", c.from)
		}
	}
	if c.to != "" && c.to != c.from {
		target, err := e.now(ctx, c.to)
		if err != nil {
			return err
		}
		if target.exists {
			return reason.Errorf(reason.PatchConflict, "%q exists already", c.to)
		}
	}
	content, err := c.apply(was.content)
	if err != nil {
		return err
	}
	switch {
	case c.to == "":
		e.remove(c.from, was)
	case c.to == c.from:
		e.put(c.from, was, content, c.executable)
	case c.from == "":
		e.put(c.to, present{}, content, c.executable)
	default:
		e.rename(c.from, c.to, was, content, c.executable)
	}
	return nil
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
