package builtin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra/internal/egress/secret"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
	"palyra/internal/workspace/overlay"
)

// Bounds of what is said about a change set. Its digest covers all of it.
const (
	shownFiles    = 100
	recordedFiles = 1000
	commitDiff    = 64 << 10
)

// commitFunc asks whether a change set may be committed; it is nil where nobody
// can be asked.
type commitFunc = func(context.Context, tool.CommitRequest) (tool.CommitRuling, error)

// changes are what became of what a program wrote to its copy.
type changes struct {
	// record is nil when there was no copy.
	record *tool.Changes
	files  []tool.FileChange
	shown  *shownChanges
	notes  []string
}

// shownChanges are changes as a model reads them.
type shownChanges struct {
	State     tool.ChangeState `json:"state"`
	Root      string           `json:"root,omitempty"`
	Added     int              `json:"added"`
	Modified  int              `json:"modified"`
	Deleted   int              `json:"deleted"`
	Protected []string         `json:"protected,omitempty"`
	// Files are protected ones first; FilesOmitted counts those beyond the
	// bound.
	Files        []shownFile `json:"files,omitempty"`
	FilesOmitted int         `json:"files_omitted,omitempty"`
	// Diff is set for a dry run.
	Diff    string `json:"diff,omitempty"`
	Message string `json:"message,omitempty"`
}

type shownFile struct {
	Path   string     `json:"path"`
	Change overlay.Op `json:"change"`
	// Protected says why the change is protected: its overlay.Classes.
	Protected []overlay.Class `json:"protected,omitempty"`
}

// settle looks at what a program wrote to its copy, asks whether that may reach
// the workspace, and commits it or leaves it to be discarded. stopped is nil for a
// program that ended by itself, else why it was stopped: nothing is committed then.
// The error that settle returns is that of the call.
func (t process) settle(ctx context.Context, call tool.Call, c command, secrets *secret.Values, ran sandbox.Report, stopped error) (changes, error) {
	if ran.Layer == nil {
		return changes{}, stopped
	}
	done := changes{record: &tool.Changes{Workspace: c.name}}
	if stopped != nil {
		return done.discarded(stopped), stopped
	}
	set, err := ran.Layer.Changes(ctx)
	if err != nil {
		return done.discarded(err), err
	}
	if err := unsecret(set, secrets); err != nil {
		return done.discarded(err), err
	}
	done.describe(set)
	switch {
	case len(set.Changes) == 0:
		done.is(tool.Unchanged, "")
		return done, nil
	case c.in.DryRun:
		done.is(tool.DryRun, "Nothing was committed, as asked: the workspace is as it was.")
		done.shown.Diff = set.Diff(commitDiff)
		return done, nil
	}
	ruling, err := t.ask(ctx, call.Commit, c, ran, set)
	done.record.ApprovalID, done.record.GrantID = ruling.ApprovalID, ruling.GrantID
	if err != nil {
		return done.discarded(err), err
	}
	// What was allowed is carried out, whoever goes away meanwhile.
	applied, err := ran.Layer.Commit(context.WithoutCancel(ctx), set, overlay.Options{
		History: t.policy.History, ID: call.Proposal.ID, CallID: call.Proposal.ID, Principal: call.Proposal.Caller.Principal.String(), At: time.Now(),
	})
	if err != nil {
		return done.discarded(err), err
	}
	if applied.Left != nil {
		done.notes = append(done.notes, "The changes are committed, but tidying up after it failed; palyrad tries again at its next start.")
	}
	done.is(tool.Committed, "")
	done.files = recorded(c.name, set)
	return done, nil
}

// ask puts a change set before policy and people. An error is a no.
func (t process) ask(ctx context.Context, commit commitFunc, c command, ran sandbox.Report, set overlay.Set) (tool.CommitRuling, error) {
	if refused := set.Refused(); len(refused) > 0 {
		return tool.CommitRuling{}, reason.Errorf(reason.CommitRefused, "the program left devices, FIFOs or sockets, or changed some, which are never committed: %s", displayed(refused)).
			WithRemedy("Make the program remove them before it ends, or keep them in /tmp.")
	}
	if commit == nil {
		return tool.CommitRuling{}, reason.Errorf(reason.CommitRefused, "the program changed files, and nobody can be asked whether they may be committed")
	}
	ruling, err := commit(ctx, c.commitRequest(ran, set))
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

func (c command) commitRequest(ran sandbox.Report, set overlay.Set) tool.CommitRequest {
	f := set.Facts()
	exit := -1
	if ran.ExitCode != nil {
		exit = *ran.ExitCode
	}
	request := tool.CommitRequest{
		Facts: tool.CommitFacts{
			Workspace: c.name, Root: set.Root(), Added: f.Added, Modified: f.Modified, Deleted: f.Deleted, Bytes: f.Bytes,
			Protected: list(f.Protected), Classes: list(f.Classes), Top: f.Top, ExitCode: exit,
		},
		Preview: tool.Preview{
			Summary: fmt.Sprintf("Commit what %s changed in %s: %d added, %d modified, %d deleted, %d of them protected.",
				c.program.Path, c.name, f.Added, f.Modified, f.Deleted, len(f.Protected)),
			Diff: set.Diff(commitDiff),
		},
	}
	for i := range set.Changes {
		request.Files = append(request.Files, fileChange(c.name, set.Changes[i]))
	}
	return request
}

func fileChange(workspace string, c overlay.Change) tool.FileChange {
	return tool.FileChange{Workspace: workspace, Path: overlay.Display(c.Path), Was: c.Was.SHA256, Is: c.Is.SHA256}
}

// recorded are the changes that a report lists.
func recorded(workspace string, set overlay.Set) []tool.FileChange {
	var files []tool.FileChange
	for _, c := range set.Changes[:min(len(set.Changes), recordedFiles)] {
		files = append(files, fileChange(workspace, c))
	}
	return files
}

// describe fills in what a change set is, whatever becomes of it.
func (d *changes) describe(set overlay.Set) {
	f := set.Facts()
	d.record.Root, d.record.Added, d.record.Modified, d.record.Deleted, d.record.Bytes = set.Root(), f.Added, f.Modified, f.Deleted, f.Bytes
	d.record.Protected = f.Protected[:min(len(f.Protected), recordedFiles)]
	d.shown = &shownChanges{
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
		d.shown.Files = append(d.shown.Files, shownFile{Path: overlay.Display(c.Path), Change: c.Op(), Protected: slices.Clone(c.Classes)})
	}
	d.shown.FilesOmitted = max(0, len(order)-shownFiles)
}

// is says what became of the changes.
func (d *changes) is(state tool.ChangeState, message string) {
	if d.shown == nil {
		d.shown = &shownChanges{}
	}
	d.record.State, d.shown.State, d.shown.Message = state, state, message
}

// discarded says why nothing reached the workspace.
func (d changes) discarded(why error) changes {
	state := tool.Discarded
	if reason.Of(why) == reason.CommitConflict {
		state = tool.Conflicted
	}
	d.is(state, "Nothing of what the program changed was committed: the workspace is as it was. The error says why, and what to do.")
	known := because(context.Background(), why)
	d.record.Reason, d.record.Message = string(known.Code), known.Message
	return d
}

func displayed(paths []string) string {
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
