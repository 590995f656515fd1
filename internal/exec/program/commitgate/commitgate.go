// Package commitgate passes the changes of a program from its copy of a workspace to the commit
// gate. It computes the change set, requests the commit, and then commits or discards the
// changes. Tools that run programs share it.
package commitgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace/overlay"
)

// Limits of the lists about a change set. Its digest covers all of it.
const (
	shownFiles    = 100
	recordedFiles = 1000
	commitDiff    = 64 << 10
)

// Work is a program that has ended, with its copy of the workspace.
type Work struct {
	Call tool.Call
	// Layer contains the program's changes; nil for a program without a copy. The caller keeps
	// ownership.
	Layer     *overlay.Layer
	Workspace string
	// By is the display name of the program.
	By string
	// ExitCode is nil for a program that was stopped.
	ExitCode *int
	// DryRun requests that nothing is committed.
	DryRun bool
	// Judge refuses a change set for a reason of the tool; it may be nil.
	Judge   func(overlay.Set) error
	History overlay.History
}

// Outcome is the result of settling the changes of a program.
type Outcome struct {
	// Record is nil if the program had no copy.
	Record  *tool.Changes
	Files   []tool.FileChange
	Summary *Summary
	Notes   []string
}

// Summary describes the changes for a model.
type Summary struct {
	State     tool.ChangeState `json:"state"`
	Root      string           `json:"root,omitempty"`
	Added     int              `json:"added"`
	Modified  int              `json:"modified"`
	Deleted   int              `json:"deleted"`
	Protected []string         `json:"protected,omitempty"`
	// Files lists protected files first; FilesOmitted counts the files beyond the limit.
	Files        []shownFile `json:"files,omitempty"`
	FilesOmitted int         `json:"files_omitted,omitempty"`
	// Diff is set for a dry run.
	Diff    string `json:"diff,omitempty"`
	Message string `json:"message,omitempty"`
}

type shownFile struct {
	Path   string     `json:"path"`
	Change overlay.Op `json:"change"`
	// Protected lists the reasons for the protection: its overlay.Classes.
	Protected []overlay.Class `json:"protected,omitempty"`
}

// Settle computes the changes of a program, requests their commit, and commits or discards them.
// stopped is nil for a program that ended by itself, otherwise the reason why it was stopped:
// nothing is committed then. The returned error is the error of the call.
func Settle(ctx context.Context, w Work, stopped error) (Outcome, error) {
	if w.Layer == nil {
		return Outcome{}, stopped
	}
	done := Outcome{Record: &tool.Changes{Workspace: w.Workspace}}
	if stopped != nil {
		return done.discarded(stopped), stopped
	}
	set, err := w.Layer.Changes(ctx)
	if err == nil && w.Judge != nil {
		err = w.Judge(set)
	}
	if err != nil {
		return done.discarded(err), err
	}
	done.describe(set)
	switch {
	case len(set.Changes) == 0:
		done.is(tool.Unchanged, "")
		return done, nil
	case w.DryRun:
		done.is(tool.DryRun, "Nothing was committed, as requested: the workspace is unchanged.")
		done.Summary.Diff = set.Diff(commitDiff)
		return done, nil
	}
	ruling, err := Ask(ctx, w.Call, set, w.request(set))
	done.Record.ApprovalID, done.Record.GrantID = ruling.ApprovalID, ruling.GrantID
	if err != nil {
		return done.discarded(err), err
	}
	// An allowed commit is completed even if its caller disconnects.
	p := w.Call.Proposal
	applied, err := w.Layer.Commit(context.WithoutCancel(ctx), set, overlay.Options{
		History: w.History, ID: p.ID, CallID: p.ID, Principal: p.Caller.Principal.String(), At: time.Now(),
	})
	if err != nil {
		return done.discarded(err), err
	}
	if applied.Left != nil {
		done.Notes = append(done.Notes, "The changes are committed, but the cleanup failed; palyrad retries it at its next start.")
	}
	done.is(tool.Committed, "")
	done.Files = recorded(w.Workspace, set)
	return done, nil
}

// Ask submits a change set to policy and approvers. An error is a refusal.
func Ask(ctx context.Context, c tool.Call, set overlay.Set, r tool.CommitRequest) (tool.CommitRuling, error) {
	if refused := set.Refused(); len(refused) > 0 {
		return tool.CommitRuling{}, reason.Errorf(reason.CommitRefused, "the program created or changed devices, FIFOs or sockets, which are never committed: %s", FormatPaths(refused)).
			WithRemedy("Make the program remove them before it ends, or keep them in /tmp.")
	}
	if c.Commit == nil {
		return tool.CommitRuling{}, reason.Errorf(reason.CommitRefused, "the call changed files, but their commit cannot be decided in this context")
	}
	ruling, err := c.Commit(ctx, r)
	switch {
	case err != nil:
		return ruling, err
	case ruling.Allowed:
		return ruling, nil
	}
	code := reason.CommitRefused
	if ruling.Reason != "" {
		code = reason.Code(ruling.Reason)
	}
	message := ruling.Message
	if message == "" {
		message = reason.Lookup(code).Sentence
	}
	refusal := reason.Errorf(code, "%s", message)
	if ruling.Remedy != "" {
		refusal = refusal.WithRemedy("%s", ruling.Remedy)
	}
	return ruling, refusal
}

func (w Work) request(set overlay.Set) tool.CommitRequest {
	r := Request(set)
	if r.Facts.ExitCode = -1; w.ExitCode != nil {
		r.Facts.ExitCode = *w.ExitCode
	}
	f := &r.Facts
	r.Preview = tool.Preview{
		Summary: fmt.Sprintf("Commit what %s changed in %s: %d added, %d modified, %d deleted, %d of them protected.",
			w.By, w.Workspace, f.Added, f.Modified, f.Deleted, len(f.Protected)),
		Diff: set.Diff(commitDiff),
	}
	return r
}

// Request returns the commit request for a change set that no program made, without its preview.
func Request(set overlay.Set) tool.CommitRequest {
	f := set.Facts()
	r := tool.CommitRequest{Facts: tool.CommitFacts{
		Workspace: set.Workspace, Root: set.Root(), Added: f.Added, Modified: f.Modified, Deleted: f.Deleted, Bytes: f.Bytes,
		Protected: canonical.List(f.Protected), Classes: canonical.List(f.Classes), Top: f.Top,
	}}
	for i := range set.Changes {
		r.Files = append(r.Files, fileChange(set.Workspace, set.Changes[i]))
	}
	return r
}

func fileChange(workspace string, c overlay.Change) tool.FileChange {
	return tool.FileChange{Workspace: workspace, Path: overlay.Display(c.Path), Was: c.Was.SHA256, Is: c.Is.SHA256}
}

// recorded returns the changes that a report lists.
func recorded(workspace string, set overlay.Set) []tool.FileChange {
	var files []tool.FileChange
	for _, c := range set.Changes[:min(len(set.Changes), recordedFiles)] {
		files = append(files, fileChange(workspace, c))
	}
	return files
}

// describe fills in the description of a change set, for any outcome.
func (d *Outcome) describe(set overlay.Set) {
	f := set.Facts()
	d.Record.Root, d.Record.Added, d.Record.Modified, d.Record.Deleted, d.Record.Bytes = set.Root(), f.Added, f.Modified, f.Deleted, f.Bytes
	d.Record.Protected = f.Protected[:min(len(f.Protected), recordedFiles)]
	d.Summary = &Summary{
		Root: set.Root(), Added: f.Added, Modified: f.Modified, Deleted: f.Deleted, Protected: f.Protected[:min(len(f.Protected), shownFiles)],
	}
	order := make([]overlay.Change, 0, len(set.Changes))
	for _, protected := range []bool{true, false} {
		for _, c := range set.Changes {
			if c.Protected() == protected {
				order = append(order, c)
			}
		}
	}
	for _, c := range order[:min(len(order), shownFiles)] {
		d.Summary.Files = append(d.Summary.Files, shownFile{Path: overlay.Display(c.Path), Change: c.Op(), Protected: slices.Clone(c.Classes)})
	}
	d.Summary.FilesOmitted = max(0, len(order)-shownFiles)
}

// is sets the state of the changes.
func (d *Outcome) is(state tool.ChangeState, message string) {
	if d.Summary == nil {
		d.Summary = &Summary{}
	}
	d.Record.State, d.Summary.State, d.Summary.Message = state, state, message
}

// discarded sets the reason why nothing was committed.
func (d Outcome) discarded(why error) Outcome {
	state := tool.Discarded
	if reason.Of(why) == reason.CommitConflict {
		state = tool.Conflicted
	}
	d.is(state, "None of the program's changes was committed: the workspace is unchanged. The error contains the reason and the next step.")
	var known *reason.Error
	if !errors.As(why, &known) {
		known = reason.Fault(why)
	}
	d.Record.Reason, d.Record.Message = string(known.Code), known.Message
	return d
}

// FormatPaths formats the first of the paths for display.
func FormatPaths(paths []string) string {
	const most = 10
	var words []string
	for _, p := range paths[:min(len(paths), most)] {
		words = append(words, overlay.Display(p))
	}
	if len(paths) > most {
		words = append(words, fmt.Sprintf("and %d more", len(paths)-most))
	}
	return strings.Join(words, ", ")
}
