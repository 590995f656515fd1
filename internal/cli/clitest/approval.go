package clitest

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
)

// ApprovalID is the id of SomeApproval.
const ApprovalID = "01APPROVA10000000000000000"

// Hostile is text that tries to redraw a terminal, reverse lines, or hide characters.
const Hostile = "rm \x1b[2J\x1b]0;x\x07 \u202egnp.exe\u200b\u2066 \u00ad\U000E0041\r end"

// SomeApproval is a pending approval with every field that an approver must see.
func SomeApproval() *palyrav1.Approval {
	return &palyrav1.Approval{
		ApprovalId: ApprovalID, ProposalId: "01PROPOSAL0000000000000000", CallDigest: canonical.Digest([]byte("call")), SnapshotDigest: canonical.Digest([]byte("snapshot")),
		SubjectType: palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_TOOL, SubjectId: "process.run:/usr/bin/git@demo",
		RequestedBy: "agent:claude", OnBehalfOf: "user:ada", Session: "default", Run: "r1", Device: "01DEVICE000000000000000000", Channel: "",
		CreatedAt: timestamppb.New(Now.Add(-48 * time.Second)), ExpiresAt: timestamppb.New(Now.Add(9*time.Minute + 12*time.Second)),
		State: palyrav1.ApprovalState_APPROVAL_STATE_PENDING, Version: 1, Severity: "high", Missing: "one more user with role security",
		Needs: &palyrav1.ApprovalNeeds{Have: 1, Want: 2, Role: "security"}, You: &palyrav1.ApprovalStanding{MayDecide: true},
		Votes: []*palyrav1.ApprovalVote{{
			User: "user:bob", Roles: []string{"operator"}, Surface: "console", Allow: true, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED,
			Ttl: durationpb.New(30 * time.Minute), Match: palyrav1.GrantMatch_GRANT_MATCH_EXACT, Reason: "looks right", At: timestamppb.New(Now.Add(-10 * time.Second)),
		}},
		Prompt: &palyrav1.ApprovalPrompt{
			Title: "Run git commit in demo", Severity: "high", Summary: "The agent wants to run a program in a sandbox.",
			ArgumentsJson: []byte(`{"argv":["git","commit","-m","one"],"workspace":"demo"}`), Tool: "process.run",
			Executable: "/usr/bin/git", ExecutableDigest: "sha256:11", Cwd: "demo:.", Argv: []string{"git", "commit", "-m", "one"},
			SandboxTier: "c", Egress: []string{"strict"}, Secrets: []string{"github-token@3"}, Operands: []*palyrav1.ApprovalOperand{{Path: "Makefile", Sha256: "sha256:22"}, {Path: "new.txt"}},
			Executor: "sandbox_tier_c_linux_bubblewrap", SandboxProfile: "tier_c workspace=rw wall_ms=60000", Redacted: []string{"/token"},
			Diff:            "--- a/x\n+++ b/x\n-old\n+new\n",
			Why:             []*palyrav1.ApprovalWhy{{PolicyId: "sensitive.ask", File: "defaults/10.cedar", Line: 3, Reason: "process_exec is sensitive", Condition: "when { resource.sensitive }"}},
			DiffersFromLast: []*palyrav1.ApprovalDifference{{Field: "argv", Was: `["git","status"]`, Is: `["git","commit","-m","one"]`}},
			Scopes: []*palyrav1.ApprovalScopeOffer{
				{Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE, Covers: "this call"},
				someOffer(palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION, palyrav1.GrantMatch_GRANT_MATCH_EXACT, "this very call again", "by this run alone", 8*time.Hour),
				someOffer(palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, palyrav1.GrantMatch_GRANT_MATCH_EXACT, "this very call again", byAll, 7*24*time.Hour),
				someOffer(palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION, palyrav1.GrantMatch_GRANT_MATCH_SUBJECT, AnyGit, "by this run alone", 8*time.Hour),
				someOffer(palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, palyrav1.GrantMatch_GRANT_MATCH_SUBJECT, AnyGit, byAll, 7*24*time.Hour),
				someOffer(palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, palyrav1.GrantMatch_GRANT_MATCH_TOOL, "any call of process.run", byAll, 7*24*time.Hour),
			},
			Notes: []string{"files that git reads indirectly are not bound"},
			Lead:  "git commit -m one", AskedLastWeek: 4, LastAllowed: true,
		},
	}
}

// AnyGit is the coverage of a grant for the subject of SomeApproval.
const AnyGit = "any git command, any arguments, in workspace demo"

const byAll = "by all runs and calls of agent:claude for user:ada"

func someOffer(scope palyrav1.ApprovalScope, match palyrav1.GrantMatch, what, by string, longest time.Duration) *palyrav1.ApprovalScopeOffer {
	return &palyrav1.ApprovalScopeOffer{Scope: scope, Match: match, What: what, By: by, Covers: what + ", " + by, Longest: durationpb.New(longest), CoveredLastWeek: int64(3 * match)}
}

// OnlyExactly changes an approval to a call that only an exact grant can cover.
func OnlyExactly(v *palyrav1.Approval) *palyrav1.Approval {
	v.Prompt.ExactOnly = "python3 runs any code that it is given"
	v.Prompt.Scopes = v.GetPrompt().GetScopes()[:3]
	return v
}

// HostileApproval has hostile text in every field that a model or client can set, and an argument
// of 200 KiB.
func HostileApproval() *palyrav1.Approval {
	v := SomeApproval()
	v.SubjectId, v.RequestedBy, v.Missing = Hostile, Hostile, Hostile
	p := v.Prompt
	p.Title, p.Summary, p.Executable, p.Diff = Hostile, Hostile+"\n"+Hostile, Hostile, "+"+Hostile+"\n-"+Hostile
	p.Argv, p.Notes, p.Secrets, p.Redacted, p.Egress = []string{Hostile}, []string{Hostile}, []string{Hostile}, []string{Hostile}, []string{Hostile}
	p.Operands = []*palyrav1.ApprovalOperand{{Path: Hostile, Sha256: Hostile}}
	p.Executor, p.SandboxProfile, p.Why[0].Condition = Hostile, Hostile, Hostile
	p.Why[0].Reason, p.DiffersFromLast[0].Is, p.Scopes[0].Covers, v.Votes[0].Reason = Hostile, Hostile, Hostile, Hostile
	arguments, err := canonical.Marshal(map[string]any{"argv": []string{Hostile}, "text": strings.Repeat("0123456789abcdef", 200<<10/16) + "THE-END"})
	if err != nil {
		panic(err)
	}
	p.ArgumentsJson = arguments
	return v
}
