package rpc

import (
	"context"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/reason"
	"palyra/internal/toolcall"
)

// noteRestricted is the only note of a prompt whose reader may not read the files.
const noteRestricted = "The diff, summary, notes and file digests are visible only to people who may decide this approval and to callers that may read the files."

// prompts chooses between the two views of a prompt: the whole prompt, and what its requester
// knows without reading a file.
type prompts struct {
	desk     *approval.Desk
	pipeline *toolcall.Pipeline
}

// message is an approval as the caller may see it.
func (p prompts) message(ctx context.Context, caller access.Caller, r approval.Record) *palyrav1.Approval {
	m := approvalMessage(r)
	if r.SubjectType == approval.SubjectGatewayChange || p.mayDecide(ctx, caller, r) {
		return m
	}
	restrictProgram(m.GetPrompt())
	if !p.seesContent(ctx, caller, r) {
		restrictPrompt(m)
	}
	return m
}

// mayDecide reports whether the caller may answer, be it with a proof of presence that is still
// to come.
func (p prompts) mayDecide(ctx context.Context, caller access.Caller, r approval.Record) bool {
	err := p.desk.MayDecide(ctx, caller, r)
	return err == nil || reason.Of(err) == reason.PresenceNotProven
}

// restrictProgram leaves out the digest of the program, which may be a file of the workspace,
// and where that lies on the gateway's host.
func restrictProgram(p *palyrav1.ApprovalPrompt) {
	p.ExecutableDigest = ""
	if argv := p.GetArgv(); len(argv) > 0 && strings.Contains(argv[0], "/") && !strings.HasPrefix(argv[0], "/") {
		p.Executable = argv[0]
	}
}

// seesContent reports whether a caller who may not decide may see what the prompt has from the
// content of files. Changes of the gateway have none; policy files are judged by the
// permissions of their own.
func (p prompts) seesContent(ctx context.Context, caller access.Caller, r approval.Record) bool {
	if len(r.Prompt.Runs.Operands) == 0 && r.Prompt.Diff == "" {
		return true
	}
	return p.pipeline.MayReadPrompt(ctx, caller, &r.Prompt)
}

// restrictPrompt leaves the arguments, the reason for asking and who has to answer. The summary
// and the notes may state sizes and existence, and digests of files, and of the call, which
// are made of those, confirm a guess of the content.
func restrictPrompt(m *palyrav1.Approval) {
	p := m.GetPrompt()
	p.Diff, p.Files, p.Operands, p.DiffersFromLast = "", nil, nil, nil
	p.Summary, p.Lead, m.CallDigest = "", "", ""
	for _, e := range m.GetEdits() {
		e.WasDigest, e.IsDigest = "", ""
	}
	p.Notes = []string{noteRestricted}
}
