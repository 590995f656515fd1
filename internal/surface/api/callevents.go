package api

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// resultPart is the largest part of a result in one message: a quarter of the
// 4 MiB message cap.
const resultPart = 1 << 20

// reader is the recipient of a call's events.
type reader struct {
	// explain is true for a reader that may read policy. attested is true for a reader that may
	// read the journal, which contains the digests of calls.
	explain, attested bool
	// view returns an approval as the reader may see it.
	view func(approval.Record) *palyrav1.Approval
}

// readerOf returns the caller as a reader of events.
func (g *gateway) readerOf(ctx context.Context, caller access.Caller) reader {
	return reader{
		explain: mayExplain(g.engine, caller), attested: may(g.engine, caller, access.PermJournalRead),
		view: func(r approval.Record) *palyrav1.Approval { return g.message(ctx, caller, r) },
	}
}

func proposedMessage(p call.Proposed) *palyrav1.ToolProposed {
	return &palyrav1.ToolProposed{
		ProposalId: p.ProposalID, Session: p.Session, Run: p.Run, Tool: p.Tool, InputDigest: p.InputDigest, Replayed: p.Replayed,
	}
}

// asked omits the rules that require approval, unless the reader may see them.
func (r reader) asked(a approval.Record) *palyrav1.ApprovalRequested {
	m := r.view(a)
	if !r.explain {
		m.Prompt.Why = nil
	}
	return &palyrav1.ApprovalRequested{Approval: m}
}

// decision omits the digest of the call if it is restricted and the reader may not read the
// journal.
func (r reader) decision(d decision.Record, restricted func() bool) *palyrav1.ToolDecision {
	m := &palyrav1.ToolDecision{
		DecisionId: d.ID, Allowed: d.Allowed, Reason: string(d.Reason), Message: d.Message, Remedy: d.Remedy,
		ApprovalId: d.ApprovalID, GrantId: d.GrantID, GrantCovers: d.GrantCovers, SnapshotDigest: d.SnapshotDigest,
		PolicyVersion: d.PolicyVersion, At: timestamppb.New(d.At),
	}
	if r.attested || !restricted() {
		m.CallDigest = d.CallDigest
	}
	if r.explain {
		m.Determining = determiningMessages(d.Determining)
	}
	return m
}

func determiningMessages(list []policy.Determining) []*palyrav1.Determining {
	out := make([]*palyrav1.Determining, len(list))
	for i, d := range list {
		out[i] = &palyrav1.Determining{
			PolicyId: d.ID, File: d.File, Line: int32(d.Line), Effect: d.Effect, Reason: d.Reason, Remedy: d.Remedy,
		}
	}
	return out
}

func outputMessage(c call.Chunk) *palyrav1.ToolOutputChunk {
	return &palyrav1.ToolOutputChunk{Stream: c.Stream, Data: c.Data}
}

// result splits a result into parts that fit into a message, at least one.
func (r reader) result(of tool.Report) []*palyrav1.ToolResult {
	var parts []*palyrav1.ToolResult
	rest := []byte(of.Result)
	for {
		part := rest[:min(len(rest), resultPart)]
		rest = rest[len(part):]
		m := &palyrav1.ToolResult{
			Outcome: string(of.Outcome), Reason: of.Reason, Message: of.Message, Remedy: of.Remedy,
			ResultJson: part, More: len(rest) > 0, Duration: durationpb.New(of.FinishedAt.Sub(of.StartedAt)),
		}
		if len(parts) == 0 {
			m.ExecutedAsEdited = r.edited(of.Edited)
		}
		parts = append(parts, m)
		if !m.More {
			m.ExecutionDigest = canonical.Digest(of.Result)
			return parts
		}
	}
}

// edited omits the digest of the proposed call unless the reader may read the journal: the call may
// have contained file content.
func (r reader) edited(e *tool.Edited) *palyrav1.ExecutedAsEdited {
	if e == nil {
		return nil
	}
	m := &palyrav1.ExecutedAsEdited{ApprovalId: e.ApprovalID, By: e.By, Reason: e.Reason, Changes: differenceMessages(e.Changes)}
	if r.attested {
		m.ProposedCallDigest = e.Proposed
	}
	return m
}

// attestation omits the statement if it is restricted and the reader may not read the journal.
// The statement contains digests of files.
func (r reader) attestation(a call.Attestation, restricted func() bool) *palyrav1.ToolAttestation {
	m := &palyrav1.ToolAttestation{AttestationId: a.Envelope.ID, JournalSeq: a.Seq}
	if r.attested || !restricted() {
		m.EnvelopeJson = a.Envelope.JSON
	}
	if statement, err := a.Envelope.Statement(); err == nil {
		m.Posture = postureMessage(statement.Predicate)
	}
	return m
}

func postureMessage(p attest.Predicate) *palyrav1.ExecutionPosture {
	return &palyrav1.ExecutionPosture{
		Executor: string(p.Executor.Name), Tier: p.Executor.Tier, Backend: p.Executor.Backend,
		Enforcement: p.SandboxEnforcement, Layers: p.Enforcement.Applied, Downgrades: p.Enforcement.Downgrades,
		Egress: p.Egress.Mode, EgressAllowed: p.Egress.Allowed, ExecutionDigest: "sha256:" + p.ExecutionSHA256,
	}
}
