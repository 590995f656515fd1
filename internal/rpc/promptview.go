package rpc

import (
	"context"

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
	if !p.seesContent(ctx, caller, r) {
		restrictPrompt(m)
	}
	return m
}

// seesContent reports whether the caller may see what the prompt has from the content of files.
// Changes of the gateway have none; policy files are judged by the permissions of their own.
func (p prompts) seesContent(ctx context.Context, caller access.Caller, r approval.Record) bool {
	if r.SubjectType == approval.SubjectGatewayChange {
		return true
	}
	if len(r.Prompt.Runs.Operands) == 0 && r.Prompt.Diff == "" {
		return true
	}
	err := p.desk.MayDecide(ctx, caller, r)
	return err == nil || reason.Of(err) == reason.PresenceNotProven || p.pipeline.MayReadPrompt(ctx, caller, &r.Prompt)
}

// restrictPrompt leaves the arguments, the reason for asking and who has to answer. The summary
// and the notes may state sizes and existence, and digests of files confirm a guess of the
// content.
func restrictPrompt(m *palyrav1.Approval) {
	p := m.GetPrompt()
	p.Diff, p.Files, p.Operands, p.DiffersFromLast = "", nil, nil, nil
	p.Summary, p.Lead = "", ""
	p.Notes = []string{noteRestricted}
}
