package policyadmin

import (
	"strings"
	"testing"

	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// said returns the evaluation of a call, or of a commit with that digest.
func said(digest, snapshot string, commit bool) *record.Evaluated {
	e := &record.Evaluated{CallDigest: digest, Verdict: record.Verdict{SnapshotDigest: snapshot}}
	if commit {
		e.Request.Commit = &tool.CommitFacts{Root: digest}
	}
	return e
}

func ruled(digest, snapshot string, allowed bool) *record.Gated {
	g := &record.Gated{CallDigest: digest, Verdict: &record.Verdict{SnapshotDigest: snapshot}}
	g.Allowed = allowed
	if allowed {
		g.ApprovalID = "approval"
	} else {
		g.Reason = reason.CommitRefused
	}
	return g
}

// Each id of a call with a commit approval selects its own subject. The decision's id selects
// the call, the approval's id the commit, and the proposal's id the refusal.
func TestSubjectOfAPastDecision(t *testing.T) {
	t.Parallel()
	evaluations := []*record.Evaluated{
		said("call", "old", false), said("call", "new", false),
		said("changes", "new", true), said("changes", "newer", true),
	}
	for name, c := range map[string]struct {
		id, asked string
		gates     []*record.Gated
		digest    string
		snapshot  string
		allowed   bool
		note      string
	}{
		"the decision":                    {"decision", "", []*record.Gated{ruled("changes", "newer", false)}, "call", "new", true, ""},
		"the proposal, refused":           {"proposal", "", []*record.Gated{ruled("changes", "newer", false)}, "changes", "newer", false, "policy explain decision"},
		"the proposal, committed":         {"proposal", "", []*record.Gated{ruled("changes", "newer", true)}, "call", "new", true, ""},
		"the proposal, waiting":           {"proposal", "", nil, "call", "new", true, ""},
		"an approval of the changes":      {"approval", "changes", []*record.Gated{ruled("changes", "newer", true)}, "changes", "newer", true, "approval approval"},
		"one that was judged before":      {"approval", "changes", []*record.Gated{ruled("changes", "new", true)}, "changes", "new", true, ""},
		"one that waits":                  {"approval", "changes", nil, "changes", "newer", false, "not decided yet"},
		"an approval of the call":         {"approval", "call", []*record.Gated{ruled("changes", "newer", false)}, "call", "new", true, ""},
		"the second of two change sets":   {"proposal", "", []*record.Gated{ruled("other", "new", true), ruled("changes", "newer", false)}, "changes", "newer", false, ""},
		"a refusal that was judged never": {"proposal", "", []*record.Gated{ruled("never", "", false)}, "call", "new", true, ""},
	} {
		call := pastCall{
			Story:    record.Story{Evaluations: evaluations, Gates: c.gates},
			proposed: record.Proposed{ProposalID: "proposal"},
			decided:  decision.Record{ID: "decision", Allowed: true, SnapshotDigest: "new"},
		}
		e, d, notes := call.subject(c.id, c.asked)
		if e.CallDigest != c.digest || e.Verdict.SnapshotDigest != c.snapshot || d.Allowed != c.allowed {
			t.Errorf("%s: %+v, decision %+v", name, e, d)
		}
		if !strings.Contains(strings.Join(notes, "\n"), c.note) {
			t.Errorf("%s: notes %q", name, notes)
		}
		if c.digest == "changes" && len(c.gates) > 0 && !c.allowed && d.Reason != reason.CommitRefused {
			t.Errorf("%s: reason %s", name, d.Reason)
		}
	}
}
