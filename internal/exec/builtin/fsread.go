package builtin

import (
	"context"

	"palyra/internal/core/tool"
)

const (
	fsReadName = tool.ReadFile
	// readDefault and readMost are the default and the maximum size of the part that one call
	// returns.
	readDefault = 256 << 10
	readMost    = 4 << 20
)

// fsRead returns part of a file.
type fsRead struct{ files }

type readInput struct {
	target
	Offset int64  `json:"offset"`
	Limit  *int64 `json:"limit"`
}

type readResult struct {
	Workspace string `json:"workspace"`
	Path      string `json:"path"`
	body
	Offset int64 `json:"offset"`
	// Bytes is the length of the returned part, Size the length of the file.
	Bytes     int    `json:"bytes"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
	Truncated bool   `json:"truncated"`
	Mode      string `json:"mode"`
	Modified  string `json:"modified"`
}

func (fsRead) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: fsReadName, Title: "Read a file",
		Description: "Read a file of a workspace. Returns the content as text, or as base64 when it is not text, with the SHA-256 of the whole file. " +
			"Pass that digest to fs.write as expected_sha256 to detect changes of the file in between.",
		InputSchema: schema(`"path"`,
			`"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Path of the file, relative to the workspace."}`,
			workspaceProperty,
			`"offset": {"type": "integer", "minimum": 0, "maximum": 67108864, "description": "First byte to return. Default 0."}`,
			`"limit": {"type": "integer", "minimum": 0, "maximum": 4194304, "description": "Most bytes to return. Default 262144. The result says whether the file goes on."}`,
		),
		Capabilities: []tool.Capability{tool.FilesystemRead}, Executor: tool.Builtin, ReadOnly: true,
	}
}

func (t fsRead) Plan(_ context.Context, p tool.Proposal) (tool.Plan, error) {
	_, s, err := t.see(p)
	return s.planned(err)
}

func (t fsRead) see(p tool.Proposal) (readInput, *seen, error) {
	in, err := decode[readInput](p.Input)
	if err != nil {
		return in, nil, err
	}
	s, err := t.files.see(fsReadName, "Read", in.target, riskRead)
	return in, s, err
}

// Prepare holds the file open, so that the read data is from the decided file.
func (t fsRead) Prepare(_ context.Context, p tool.Proposal) (tool.Prepared, error) {
	in, s, err := t.see(p)
	if err != nil {
		return tool.Prepared{}, err
	}
	return s.prepared(t.version, func(ctx context.Context, _ tool.Call) (any, error) { return s.read(ctx, in) }), nil
}

// read returns the requested part of the file.
func (s *seen) read(ctx context.Context, in readInput) (readResult, error) {
	if s.handle == nil {
		return readResult{}, s.missing
	}
	limit := int64(readDefault)
	if in.Limit != nil {
		limit = min(*in.Limit, readMost)
	}
	content, err := s.handle.Read(ctx, in.Offset, limit)
	if err != nil {
		return readResult{}, err
	}
	end := in.Offset + int64(len(content.Data))
	return readResult{
		Workspace: s.root.Name(), Path: content.Info.Path,
		body:   asBody(content.Data, end < content.Info.Size),
		Offset: in.Offset, Bytes: len(content.Data), Size: content.Info.Size, SHA256: content.SHA256,
		Truncated: end < content.Info.Size,
		Mode:      content.Info.Mode.String(), Modified: timestamp(content.Info.ModTime),
	}, nil
}
