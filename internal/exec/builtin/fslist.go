package builtin

import (
	"context"
	"encoding/base64"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
)

const (
	fsListName  = "fs.list"
	listDefault = 1000
)

// fsList lists a directory.
type fsList struct{ files }

type listInput struct {
	target
	Depth  int  `json:"depth"`
	Limit  int  `json:"limit"`
	Hidden bool `json:"hidden"`
}

type listEntry struct {
	Path string `json:"path"`
	// PathBase64 is the exact path if it is not valid UTF-8.
	PathBase64 string `json:"path_base64,omitempty"`
	Kind       string `json:"kind"`
	// Size is omitted for a file that the caller may not read.
	Size     *int64 `json:"size,omitempty"`
	Mode     string `json:"mode"`
	Modified string `json:"modified"`
}

type listResult struct {
	Workspace string      `json:"workspace"`
	Path      string      `json:"path"`
	Entries   []listEntry `json:"entries"`
	// LeftOut counts the entries that policy hides from the caller.
	LeftOut   int  `json:"left_out"`
	Truncated bool `json:"truncated"`
}

func (fsList) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: fsListName, Title: "List a directory",
		Description: "List a directory of a workspace, in the order of names, with kind (file, dir, symlink, other), size in bytes, mode and time of change. " +
			"Symbolic links are named, not followed. What policy does not let you list is left out and counted in left_out; a file that you may not read has no size.",
		InputSchema: schema(``,
			`"path": {"type": "string", "maxLength": 4096, "description": "Directory, relative to the workspace. Default: the workspace itself."}`,
			workspaceProperty,
			`"depth": {"type": "integer", "minimum": 1, "maximum": 32, "description": "How many levels to list. Default 1: only the directory."}`,
			`"limit": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "Most entries to return. Default 1000."}`,
			`"hidden": {"type": "boolean", "description": "Also list names that begin with a dot. Default false."}`,
		),
		Capabilities: []tool.Capability{tool.FilesystemRead}, Executor: tool.Builtin, ReadOnly: true,
	}
}

func (t fsList) Plan(_ context.Context, p tool.Proposal) (tool.Plan, error) {
	_, s, err := t.see(p)
	return s.planned(err)
}

func (t fsList) see(p tool.Proposal) (listInput, *seen, error) {
	in, err := decode[listInput](p.Input)
	if err != nil {
		return in, nil, err
	}
	s, err := t.files.see(fsListName, "List", in.target, riskList)
	return in, s, err
}

// Prepare opens the directory once more; its entries are checked one by one.
func (t fsList) Prepare(_ context.Context, p tool.Proposal) (tool.Prepared, error) {
	in, s, err := t.see(p)
	if err != nil {
		return tool.Prepared{}, err
	}
	return s.prepared(t.version, func(ctx context.Context, c tool.Call) (any, error) { return s.list(ctx, c, in) }), nil
}

func (s *seen) list(ctx context.Context, c tool.Call, in listInput) (listResult, error) {
	top := s.plan.Facts.Path
	found := finder{call: c, root: s.root, risk: riskList}
	result := listResult{Workspace: s.root.Name(), Path: top, Entries: []listEntry{}}
	depth, limit := max(in.Depth, 1), in.Limit
	if limit == 0 {
		limit = listDefault
	}
	err := s.root.Walk(ctx, top, func(info workspace.Info) error {
		switch {
		case !in.Hidden && strings.HasPrefix(info.Name(), "."):
			return workspace.ErrSkipDir
		case len(result.Entries) == limit:
			result.Truncated = true
			return workspace.ErrStop
		case !found.mayUse(info):
			result.LeftOut++
			return workspace.ErrSkipDir
		}
		result.Entries = append(result.Entries, found.entry(info))
		if level(top, info.Path) >= depth {
			return workspace.ErrSkipDir
		}
		return nil
	})
	return result, err
}

// level returns the depth of p below top: 1 for an entry of top itself.
func level(top, p string) int {
	if top == "." {
		return strings.Count(p, "/") + 1
	}
	return strings.Count(p, "/") - strings.Count(path.Clean(top), "/")
}

func (f finder) entry(info workspace.Info) listEntry {
	e := listEntry{Path: info.Path, Kind: string(info.Kind), Mode: info.Mode.String(), Modified: timestamp(info.ModTime)}
	switch {
	case info.Kind != workspace.File:
		e.Size = new(int64)
	case f.mayRead(info):
		e.Size = &info.Size
	}
	if !utf8.ValidString(info.Path) {
		e.Path = strings.ToValidUTF8(info.Path, "\ufffd")
		e.PathBase64 = base64.StdEncoding.EncodeToString([]byte(info.Path))
	}
	return e
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
