package api

import (
	"cmp"
	"context"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// noteRestricted is the only note of a prompt whose reader may not read the files.
const noteRestricted = "The diff, summary, notes and file digests are visible only to users who may decide this approval and to callers that may read the files."

// prompts selects between the two views of a prompt: the whole prompt, and the part that its
// requester may see without permission to read files.
type prompts struct {
	desk     *approval.Desk
	pipeline *call.Pipeline
}

// message returns an approval as the caller may see it.
func (p prompts) message(ctx context.Context, caller access.Caller, r approval.Record) *palyrav1.Approval {
	return approvalMessage(p.view(ctx, caller, r))
}

// view returns an approval as the caller may see it. Changes of the gateway are complete for every
// reader, unless they contain files of a workspace.
func (p prompts) view(ctx context.Context, caller access.Caller, r approval.Record) approval.Record {
	if r.SubjectType == approval.SubjectGatewayChange && r.Prompt.Workspace == "" || p.mayDecide(ctx, caller, r) {
		return r
	}
	seen := p.pipeline.MayReadPrompt(ctx, caller, &r.Prompt)
	own := r.Prompt.Runs.Executable.Path
	r.Prompt.Runs = withoutProgram(r.Prompt.Runs)
	r.Binding.Executable = r.Prompt.Runs.Executable
	// Scopes contain the program's location and the call's digest, and belong to answers of others.
	r.Prompt.Scopes = nil
	if !seen {
		r = restrict(r)
	}
	if !seen || own != r.Prompt.Runs.Executable.Path {
		r.SubjectID, r.Subject, r.SubjectCovers = subjectOf(r), "", ""
	}
	return r
}

// mayDecide reports whether the caller may answer, possibly with a proof of presence that is not
// yet given.
func (p prompts) mayDecide(ctx context.Context, caller access.Caller, r approval.Record) bool {
	err := p.desk.Votes.MayDecide(ctx, caller, r)
	return err == nil || reason.Of(err) == reason.PresenceNotProven
}

// withoutProgram omits the digest of the program, which may be a file of the workspace, and its
// location on the gateway's host.
func withoutProgram(e approval.Execution) approval.Execution {
	e.Executable.SHA256 = ""
	if len(e.Argv) > 0 && strings.Contains(e.Argv[0], "/") && !strings.HasPrefix(e.Argv[0], "/") {
		e.Executable.Path = e.Argv[0]
	}
	return e
}

// subjectOf returns the subject of an approval without the location or the digest of a file.
func subjectOf(r approval.Record) string {
	if subject, _, commit := strings.Cut(r.SubjectID, ":sha256:"); commit && strings.HasPrefix(subject, "commit:") {
		return subject
	}
	return cmp.Or(r.Binding.Tool, r.SubjectID)
}

// restrict keeps the arguments, the reason for the approval and the required approvers. Other
// parts of a prompt may reveal sizes, the existence of files, or link targets. Digests of files
// could confirm a guess of their content. The digest of the call includes these digests.
func restrict(r approval.Record) approval.Record {
	p, b := r.Prompt, r.Binding
	runs := approval.Execution{Executable: p.Runs.Executable, Argv: p.Runs.Argv, Executor: p.Runs.Executor, Tier: p.Runs.Tier,
		Profile: p.Runs.Profile, Egress: p.Runs.Egress, Secrets: p.Runs.Secrets}
	r.Prompt = approval.Prompt{
		Title: p.Title, Severity: p.Severity, Arguments: p.Arguments, Redacted: p.Redacted, Runs: runs, Why: p.Why, Changed: p.Changed,
		RequesterReason: p.RequesterReason, Notes: []string{noteRestricted},
	}
	r.Binding = tool.Binding{
		Principal: b.Principal, OnBehalfOf: b.OnBehalfOf, Tool: b.Tool, ToolDefinitionDigest: b.ToolDefinitionDigest, Elsewhere: b.Elsewhere,
		Arguments: b.Arguments, Argv: b.Argv, Executable: runs.Executable, SandboxProfile: b.SandboxProfile, Egress: b.Egress,
	}
	r.CallDigest, r.Edits = "", slices.Clone(r.Edits)
	for i := range r.Edits {
		r.Edits[i].WasDigest, r.Edits[i].IsDigest = "", ""
	}
	return r
}
