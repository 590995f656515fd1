package api

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/unified"
	"palyra/internal/exec/workspace/overlay"
)

// Workspaces are the declared workspaces and their stored change sets. An undeclared name is
// reason.UnknownWorkspace.
type Workspaces interface {
	Declared() []config.Workspace
	ChangeSets(workspace string) ([]overlay.Summary, error)
	ChangeSet(workspace, id string) (overlay.Detail, error)
	// Undo reverts a change set and journals the revert. It returns the change set of the revert,
	// also if the revert was made earlier.
	Undo(ctx context.Context, by access.Caller, workspace, id, note string) (overlay.Summary, error)
}

type workspaces struct {
	of       Workspaces
	pipeline *call.Pipeline
}

// changesPage is the default number of changes in a page.
const changesPage = 500

// ListWorkspaces returns the declared workspaces.
func (w *workspaces) ListWorkspaces(context.Context, *palyrav1.ListWorkspacesRequest) (*palyrav1.ListWorkspacesResponse, error) {
	return &palyrav1.ListWorkspacesResponse{Workspaces: workspaceMessages(w.of.Declared())}, nil
}

// ListChangeSets returns the stored change sets, newest first.
func (w *workspaces) ListChangeSets(_ context.Context, req *palyrav1.ListChangeSetsRequest) (*palyrav1.ListChangeSetsResponse, error) {
	sets, err := w.of.ChangeSets(req.GetWorkspace())
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListChangeSetsResponse{}
	for _, s := range sets {
		res.ChangeSets = append(res.ChangeSets, changeSetMessage(s))
	}
	return res, nil
}

// GetChangeSet returns one page of the changes, with the diff on the first.
func (w *workspaces) GetChangeSet(ctx context.Context, req *palyrav1.GetChangeSetRequest) (*palyrav1.GetChangeSetResponse, error) {
	first := 0
	if token := req.GetPageToken(); token != "" {
		var err error
		if first, err = strconv.Atoi(token); err != nil || first < 0 {
			return nil, reason.Errorf(reason.InvalidInput, "page_token %q is not valid", token)
		}
	}
	d, err := w.of.ChangeSet(req.GetWorkspace(), req.GetChangeSetId())
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size == 0 {
		size = changesPage
	}
	first = min(first, len(d.Changes))
	last := min(first+size, len(d.Changes))
	res := &palyrav1.GetChangeSetResponse{ChangeSet: changeSetMessage(d.Summary)}
	mayRead := w.readerOf(ctx, req.GetWorkspace())
	for _, c := range d.Changes[first:last] {
		m := changeMessage(c)
		if !mayRead(c.Path) {
			restrictChange(m)
		}
		res.Changes = append(res.Changes, m)
	}
	if last < len(d.Changes) {
		res.NextPageToken = strconv.Itoa(last)
	}
	hidden := countHidden(d, mayRead)
	if hidden == 0 {
		res.ChangeSet.Root = d.Root
	}
	if first == 0 {
		res.Diff, res.RestrictedFiles = diffFor(d, mayRead, hidden), hidden
	}
	return res, nil
}

// countHidden returns the number of changed files that the caller may not read.
func countHidden(d overlay.Detail, mayRead func(path string) bool) (n int32) {
	for _, c := range d.Changes {
		if !mayRead(c.Path) {
			n++
		}
	}
	return n
}

// diffFor returns the diff of the files that the caller may read.
func diffFor(d overlay.Detail, mayRead func(path string) bool, hidden int32) string {
	if hidden == 0 {
		return d.Diff
	}
	return unified.Filter(d.Diff, func(c unified.Change) bool { return mayRead(c.OldPath) && mayRead(c.NewPath) })
}

// readerOf returns a function that reports whether the caller may read a file of a workspace.
// The function returns true for the path "" of an absent file. It returns false for a path that
// the diff may have escaped, because policy cannot be evaluated for such a path.
func (w *workspaces) readerOf(ctx context.Context, workspace string) func(path string) bool {
	answers := map[string]bool{"": true}
	return func(path string) bool {
		answer, known := answers[path]
		if !known {
			answer = !strings.Contains(path, `\`) && w.pipeline.MayReadFile(ctx, callerOf(ctx), workspace, path)
			answers[path] = answer
		}
		return answer
	}
}

// restrictChange removes the content of a change: digests, link targets and sizes.
func restrictChange(m *palyrav1.WorkspaceChange) {
	for _, s := range []*palyrav1.FileState{m.GetWas(), m.GetIs()} {
		if s != nil {
			s.Sha256, s.Target, s.Size = "", "", 0
		}
	}
}

// UndoChangeSet reverts a change set.
func (w *workspaces) UndoChangeSet(ctx context.Context, req *palyrav1.UndoChangeSetRequest) (*palyrav1.UndoChangeSetResponse, error) {
	s, err := w.of.Undo(ctx, callerOf(ctx), req.GetWorkspace(), req.GetChangeSetId(), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &palyrav1.UndoChangeSetResponse{ChangeSet: changeSetMessage(s)}, nil
}

// changeSetMessage omits the digest of the whole change set, which could confirm a guess of a
// file's content.
func changeSetMessage(s overlay.Summary) *palyrav1.ChangeSet {
	state := palyrav1.ChangeSetState_CHANGE_SET_STATE_COMMITTED
	if s.State == overlay.RecordUndone {
		state = palyrav1.ChangeSetState_CHANGE_SET_STATE_UNDONE
	}
	return &palyrav1.ChangeSet{
		ChangeSetId: s.ID, Workspace: s.Workspace, CommittedAt: timestamppb.New(s.At), State: state, ProposalId: s.CallID, Principal: s.Principal,
		Undoes: s.Undoes, Added: int64(s.Added), Modified: int64(s.Modified), Deleted: int64(s.Deleted), Bytes: s.Bytes,
		Protected: s.Protected, Classes: s.Classes, Undoable: s.Undoable(),
	}
}

func changeMessage(c overlay.Change) *palyrav1.WorkspaceChange {
	m := &palyrav1.WorkspaceChange{Path: overlay.Display(c.Path), Kind: string(c.Op()), Was: fileStateMessage(c.Was), Is: fileStateMessage(c.Is)}
	for _, class := range c.Classes {
		m.Classes = append(m.Classes, string(class))
	}
	return m
}

func fileStateMessage(s overlay.State) *palyrav1.FileState {
	if s.Type == overlay.None {
		return nil
	}
	m := &palyrav1.FileState{Type: string(s.Type), Mode: uint32(s.Mode), Size: s.Size, Sha256: s.SHA256}
	if s.Type == overlay.Symlink {
		m.Target = overlay.Display(s.Target)
	}
	return m
}
