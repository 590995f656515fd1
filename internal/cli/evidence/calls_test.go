package evidence_test

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// storied is a call with all compared properties: its approval was voted for, and a grant
// permitted its changes.
type storied struct {
	x      attest.Execution
	events []storiedEvent
}

type storiedEvent struct {
	code    event.Code
	subject string
	payload map[string]any
}

const (
	storyApproval = "01APPROVA00000000000000001"
	storyGrant    = "01GRANT0000000000000000001"
)

func story(j *clitest.Journal) *storied {
	digest := func(s string) string { return canonical.Digest([]byte(s)) }
	now := time.Now().UTC().Round(0)
	vote := now.Add(-time.Second)
	exit := 0
	head := j.Log.Head()
	x := attest.Execution{
		AttestationID: ulid.Make().String(), ProposalID: ulid.Make().String(), DecisionID: ulid.Make().String(), ApprovalID: storyApproval,
		Session: "default", Run: "r1", Principal: "agent:claude", OnBehalfOf: "user:ada", Tool: "process.run",
		ToolDefinitionDigest: digest("tool"), CallDigest: digest("call"), ArgumentsDigest: digest("arguments"),
		PolicyVersion: digest("policy"), SnapshotDigest: digest("snapshot"), Determining: []string{"a", "b"},
		Journal:    &attest.Journal{Size: head.Seq, HeadSHA256: hex.EncodeToString(head.Hash[:])},
		ProposedAt: now, DecidedAt: now, ApprovedAt: vote,
		Report: tool.Report{
			Outcome: tool.Succeeded, Result: json.RawMessage(`{"ok":true}`), StartedAt: now, FinishedAt: now, ExitCode: &exit,
			Executor: tool.ExecutorInfo{Name: tool.Builtin, Version: "1", Tier: "builtin"}, Enforcement: tool.Enforcement{Level: "none"},
			Changes: &tool.Changes{State: tool.Committed, Workspace: "demo", Root: digest("root"), GrantID: storyGrant, ApprovalID: storyApproval},
		},
	}
	ids := []any{map[string]any{"id": "a"}, map[string]any{"id": "b"}}
	return &storied{x: x, events: []storiedEvent{
		{event.Proposed, x.ProposalID, map[string]any{
			"principal": x.Principal, "on_behalf_of": x.OnBehalfOf, "tool": x.Tool, "tool_definition_digest": x.ToolDefinitionDigest,
			"arguments_digest": x.ArgumentsDigest, "journal": map[string]any{"size": x.Journal.Size, "head_sha256": x.Journal.HeadSHA256},
		}},
		{event.Evaluated, x.ProposalID, map[string]any{
			"call_digest": x.CallDigest, "verdict": map[string]any{"snapshot_digest": x.SnapshotDigest, "policy_version": x.PolicyVersion},
		}},
		{event.Voted, storyApproval, map[string]any{"call_digest": x.CallDigest, "vote": map[string]any{"at": vote}}},
		{event.Answered, storyApproval, map[string]any{"call_digest": x.CallDigest, "state": "allowed"}},
		{event.Consumed, storyApproval, map[string]any{"call_digest": x.CallDigest, "state": "consumed"}},
		{event.Decided, x.ProposalID, map[string]any{
			"decision_id": x.DecisionID, "allowed": true, "approval_id": storyApproval, "call_digest": x.CallDigest,
			"snapshot_digest": x.SnapshotDigest, "policy_version": x.PolicyVersion, "determining": ids, "at": now,
		}},
		{event.GrantUsed, storyGrant, map[string]any{"grant_id": storyGrant, "proposal_id": x.ProposalID, "call_digest": digest("changes")}},
		{event.Gated, x.ProposalID, map[string]any{
			"allowed": true, "call_digest": digest("changes"), "approval_id": storyApproval, "grant_id": storyGrant,
			"facts": map[string]any{"workspace": "demo", "root": digest("root")},
		}},
		{event.Attested, x.ProposalID, map[string]any{
			"attestation_id": x.AttestationID, "proposal_id": x.ProposalID, "decision_id": x.DecisionID, "tool": x.Tool,
			"result_blob": canonical.Digest(x.Report.Result), "report": x.Report,
		}},
	}}
}

// at returns the event with a code.
func (s *storied) at(code event.Code) *storiedEvent {
	i := slices.IndexFunc(s.events, func(e storiedEvent) bool { return e.code == code })
	return &s.events[i]
}

func (s *storied) set(code event.Code, member string, value any) {
	payload, path := s.at(code).payload, strings.Split(member, ".")
	for _, part := range path[:len(path)-1] {
		payload = payload[part].(map[string]any)
	}
	payload[path[len(path)-1]] = value
}

func (s *storied) drop(code event.Code) {
	s.events = slices.DeleteFunc(s.events, func(e storiedEvent) bool { return e.code == code })
}

// tell signs the statement and journals the events of the story. The statement describes the
// original call: a forger of the events could sign checkpoints, but no statement.
func tell(j *clitest.Journal, t *testing.T, s *storied) {
	t.Helper()
	envelope := must.Get(j.Notary.Sign(t.Context(), s.x))(t)
	for _, e := range s.events {
		if e.code == event.Attested {
			e.payload["envelope"] = json.RawMessage(envelope.JSON)
		}
		j.Append(t, e.code, s.x, e.subject, e.payload)
	}
}

// TestContradictions: an attestation that contradicts its events is reported, with the field
// and both values.
func TestContradictions(t *testing.T) {
	t.Parallel()
	other := canonical.Digest([]byte("other"))
	for _, c := range []struct {
		name   string
		change func(s *storied)
		says   []string // nil: no contradiction
	}{
		{"the control", func(*storied) {}, nil},
		{"proposed by another", func(s *storied) { s.set(event.Proposed, "principal", "agent:mallory") }, []string{`its invocation.principal is "agent:claude"`, `(proposed) says "agent:mallory"`}},
		{"on behalf of another", func(s *storied) { s.set(event.Proposed, "on_behalf_of", "user:eve") }, []string{"invocation.on_behalf_of"}},
		{"another tool", func(s *storied) { s.set(event.Proposed, "tool", "fs.read") }, []string{"invocation.tool", `"fs.read"`}},
		{"another definition", func(s *storied) { s.set(event.Proposed, "tool_definition_digest", other) }, []string{"invocation.tool_definition_digest"}},
		{"other arguments", func(s *storied) { s.set(event.Proposed, "arguments_digest", other) }, []string{"inputs.arguments_digest"}},
		{"another head proposed", func(s *storied) { s.set(event.Proposed, "journal.head_sha256", other[7:]) }, []string{"the proposal says that event 10 had the hash"}},
		{"a head to come", func(s *storied) { s.set(event.Proposed, "journal.size", 11) }, []string{"the proposal says that the journal had 11 events when the call was proposed, which is event 11"}},
		{"another place proposed", func(s *storied) { delete(s.at(event.Proposed).payload, "journal"); s.x.Journal.Size = 9 }, []string{"says that event 9 had the hash"}},
		{"another head stated", func(s *storied) { s.x.Journal = &attest.Journal{Size: 0, HeadSHA256: strings.Repeat("0", 64)} }, []string{"its journal is of size 0"}},
		{"no head stated", func(s *storied) { s.x.Journal = nil }, nil},
		{"no head in the event", func(s *storied) { delete(s.at(event.Proposed).payload, "journal") }, nil},
		{"another digest evaluated", func(s *storied) { s.set(event.Evaluated, "call_digest", other) }, []string{"invocation.call_digest", "(evaluated)"}},
		{"another snapshot evaluated", func(s *storied) { s.set(event.Evaluated, "verdict.snapshot_digest", other) }, []string{"policy.snapshot_digest", "(evaluated)"}},
		{"never evaluated", func(s *storied) { s.drop(event.Evaluated) }, []string{"no event before it says that policy was asked"}},
		{"another decision", func(s *storied) { s.set(event.Decided, "decision_id", "01X") }, []string{"invocation.decision_id", "(decided)"}},
		{"denied", func(s *storied) { s.set(event.Decided, "allowed", false) }, []string{"no open call"}},
		{"another approval decided", func(s *storied) { s.set(event.Decided, "approval_id", "01X") }, []string{"invocation.approval_id"}},
		{"a grant decided", func(s *storied) { s.set(event.Decided, "grant_id", "01X") }, []string{"invocation.grant_id"}},
		{"another policy decided", func(s *storied) { s.set(event.Decided, "policy_version", other) }, []string{"policy.version", "(decided)"}},
		{"other rules decided", func(s *storied) { s.set(event.Decided, "determining", []any{map[string]any{"id": "a"}}) }, []string{`policy.determining is ["a" "b"]`}},
		{"decided at another time", func(s *storied) { s.set(event.Decided, "at", time.Now().Add(time.Hour).UTC()) }, []string{"times.decided_at"}},
		{"never decided", func(s *storied) { s.drop(event.Decided) }, []string{"no event before it says that the call was decided"}},
		{"never proposed", func(s *storied) { s.drop(event.Proposed) }, []string{"no open call"}},
		{"the approval was never used", func(s *storied) { s.drop(event.Consumed) }, []string{"no event says that the approval was used"}},
		{"the approval was used for another call", func(s *storied) { s.set(event.Consumed, "call_digest", other) }, []string{"invocation.call_digest", other}},
		{"the approval was answered for another call", func(s *storied) { s.set(event.Answered, "call_digest", other) }, []string{"was answered for the call " + other}},
		{"the approval was denied", func(s *storied) { s.set(event.Answered, "state", "denied") }, []string{storyApproval}},
		{"voted at another time", func(s *storied) { s.set(event.Voted, "vote.at", time.Now().Add(time.Hour).UTC()) }, []string{"times.approved_at"}},
		{"the changes were refused", func(s *storied) { s.set(event.Gated, "allowed", false) }, []string{"refuses the changes"}},
		{"other changes were let through", func(s *storied) { s.set(event.Gated, "facts.root", other) }, []string{"changes.root_sha256"}},
		{"changes of another workspace", func(s *storied) { s.set(event.Gated, "facts.workspace", "x") }, []string{"changes.workspace"}},
		{"the changes had no ruling", func(s *storied) { s.drop(event.Gated) }, []string{"no event before it lets the changes through"}},
		{"another grant let them through", func(s *storied) { s.set(event.Gated, "grant_id", "01X") }, []string{"changes.grant_id"}},
		{"the grant was never used", func(s *storied) { s.drop(event.GrantUsed) }, []string{"no event says that the grant was used"}},
		{"another outcome reported", func(s *storied) { s.at(event.Attested).payload["report"] = map[string]any{"outcome": "failed"} }, []string{"result.outcome"}},
		{"another result kept", func(s *storied) { s.set(event.Attested, "result_blob", other) }, []string{"execution_sha256"}},
		{"attested with another decision", func(s *storied) { s.set(event.Attested, "decision_id", "01X") }, []string{"invocation.decision_id", "(attested)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			j := w.Journaled()
			s := story(j)
			c.change(s)
			tell(j, t, s)
			r := w.Run("journal", "verify", w.Export())
			if c.says == nil {
				w.Want(r, 0)
				return
			}
			w.Want(r, 8)
			for _, part := range append(c.says, "sequence number") {
				if !strings.Contains(r.Err, part) {
					t.Errorf("does not say %q: %s", part, r.Err)
				}
			}
			if !strings.Contains(r.Err, "the proposal says") && !strings.Contains(r.Err, s.x.AttestationID+" contradicts the journal") {
				t.Errorf("the attestation is not named: %s", r.Err)
			}
		})
	}
}

// An approval applies to one call, and a call is attested once.
func TestAnswerAppliesToOneCall(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(a, b *storied){
		"an approval used twice": func(_, b *storied) {
			b.drop(event.Voted)
			b.drop(event.Answered)
			b.drop(event.Consumed)
		},
		"a call attested twice": func(a, b *storied) {
			b.x = a.x
			b.x.AttestationID = ulid.Make().String()
			b.events = a.events[len(a.events)-1:]
			b.events[0].payload["attestation_id"] = b.x.AttestationID
		},
	} {
		w := clitest.NewWorld(t)
		j := w.Journaled()
		a := story(j)
		tell(j, t, a)
		w.Want(w.Run("journal", "verify", w.Export()), 0)
		b := story(j)
		second(a, b)
		tell(j, t, b)
		if r := w.Run("journal", "verify", w.Export()); r.Code != 8 || !strings.Contains(r.Err, "contradicts the journal") {
			t.Errorf("%s: exit code %d: %s", name, r.Code, r.Err)
		}
	}
}

// A call that started before the export is not compared, which is reported.
func TestLateExportIsNotCompared(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	j := w.Journaled()
	s := story(j)
	s.set(event.Proposed, "principal", "agent:mallory")
	tell(j, t, s)
	path := w.Home + "/late.ndjson"
	w.Want(w.Run("journal", "export", path, "--after", "18"), 0)
	r := w.Run("journal", "verify", path)
	w.Want(r, 0)
	if !strings.Contains(r.Out, "1 of calls that started before this export are not compared") {
		t.Error(r.Out)
	}
}
