package builtin

import (
	"context"
	"fmt"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

const fsWriteName = "fs.write"

// fsWrite writes one file as a whole.
type fsWrite struct{ files }

type writeInput struct {
	target
	Content        *string `json:"content"`
	ContentBase64  *string `json:"content_base64"`
	Mode           string  `json:"mode"`
	ExpectedSHA256 string  `json:"expected_sha256"`
	Executable     *bool   `json:"executable"`
}

func (fsWrite) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: fsWriteName, Title: "Write a file",
		Description: "Write a whole file of a workspace, making the directories that it needs. The file is replaced in one step and never half written. " +
			"Protected files (git hooks and configuration, agent, editor, shell and CI configuration) are refused. Use fs.patch to change parts of a file.",
		InputSchema: schema(`"path"`,
			`"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Path of the file, relative to the workspace."}`,
			workspaceProperty,
			`"content": {"type": "string", "description": "The whole new content as text. Send this or content_base64."}`,
			`"content_base64": {"type": "string", "description": "The whole new content as base64, for data that is not text."}`,
			`"mode": {"type": "string", "enum": ["create", "overwrite"], "description": "create (default) fails when the file exists; overwrite replaces it or creates it."}`,
			`"expected_sha256": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$", "description": "Digest that the file must have now, as fs.read returned it. The write fails when it has changed. Only with overwrite."}`,
			`"executable": {"type": "boolean", "description": "Set or clear the execute bits. Default: as it was; a new file is not executable."}`,
		),
		Capabilities: []tool.Capability{tool.FilesystemWrite}, Executor: tool.Builtin, Destructive: true,
	}
}

func (t fsWrite) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	return planEdit(t.edit(ctx, p))
}

// Prepare computes the change again; Run makes exactly this change.
func (t fsWrite) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	return prepareEdit(t.edit(ctx, p))
}

func writeSummary(e *edit) string {
	c := e.changes[0]
	verb := "Create"
	if c.Was != "" {
		verb = "Replace"
	}
	return fmt.Sprintf("%s %q in workspace %s (%d bytes).", verb, c.Path, e.root.Name(), len(c.Content))
}

// edit computes the change. The caller closes its root.
func (t fsWrite) edit(ctx context.Context, p tool.Proposal) (*edit, error) {
	in, err := decode[writeInput](p.Input)
	if err != nil {
		return nil, err
	}
	if in.Content == nil && in.ContentBase64 == nil {
		return nil, reason.Errorf(reason.InvalidInput, "input has neither content nor content_base64")
	}
	content, err := given(in.Content, in.ContentBase64, "content")
	if err != nil {
		return nil, err
	}
	root, err := t.set.Open(in.Workspace)
	if err != nil {
		return nil, err
	}
	e := &edit{tool: fsWriteName, version: t.version, summary: writeSummary, root: root, protected: t.policies[root.Name()].Protected}
	if err := t.fill(ctx, e, in, content); err != nil {
		root.Close()
		return nil, err
	}
	return e, nil
}

func (t fsWrite) fill(ctx context.Context, e *edit, in writeInput, content []byte) error {
	if err := e.writable(); err != nil {
		return err
	}
	risk := riskCreate
	if in.Mode == "overwrite" {
		risk = riskChange
	} else if in.ExpectedSHA256 != "" {
		return reason.Errorf(reason.InvalidInput, "expected_sha256 requires mode overwrite").WithField("pointer", "/expected_sha256")
	}
	real, err := e.resolveTarget(in.Path, risk, in.Executable)
	if err != nil {
		return err
	}
	return e.restrict(e.write(ctx, real, in, content))
}

// write adds the write of the file in its current state.
func (e *edit) write(ctx context.Context, real string, in writeInput, content []byte) error {
	was, err := e.now(ctx, real)
	if err != nil {
		return err
	}
	switch {
	case in.Mode != "overwrite" && was.exists:
		return reason.Errorf(reason.PatchConflict, "%q exists already", real).
			WithRemedy("Choose another name, or read it and send mode overwrite with its expected_sha256.")
	case in.ExpectedSHA256 != "" && in.ExpectedSHA256 != was.sha256:
		return reason.Errorf(reason.PatchConflict, "%q has changed since it was read: its digest is not expected_sha256", real).
			WithField("expected_sha256", in.ExpectedSHA256).WithField("found_sha256", was.sha256)
	}
	e.put(real, was, content, in.Executable)
	return e.root.Judge(e.changes)
}
