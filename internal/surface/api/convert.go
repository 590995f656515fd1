package api

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/tool"
	"palyra/internal/core/unified"
	"palyra/internal/surface/api/presenceproof"
)

// enumName returns the wire name of an enum value for a domain value: "pending" with the prefix
// APPROVAL_STATE is APPROVAL_STATE_PENDING.
func enumName(prefix, word string) string { return prefix + "_" + strings.ToUpper(word) }

// word is the reverse of enumName; the unspecified value is "".
func word(prefix, name string) string {
	w := strings.ToLower(strings.TrimPrefix(name, prefix+"_"))
	if w == "unspecified" {
		return ""
	}
	return w
}

// wordsOf converts a list of enum values, without unspecified values.
func wordsOf[T ~string, E fmt.Stringer](prefix string, list []E) []T {
	var out []T
	for _, e := range list {
		if w := word(prefix, e.String()); w != "" {
			out = append(out, T(w))
		}
	}
	return out
}

const (
	statePrefix   = "APPROVAL_STATE"
	subjectPrefix = "APPROVAL_SUBJECT_TYPE"
	scopePrefix   = "APPROVAL_SCOPE"
	matchPrefix   = "GRANT_MATCH"
)

func stateMessage(s approval.State) palyrav1.ApprovalState {
	return palyrav1.ApprovalState(palyrav1.ApprovalState_value[enumName(statePrefix, string(s))])
}

func scopeMessage(s approval.Scope) palyrav1.ApprovalScope {
	return palyrav1.ApprovalScope(palyrav1.ApprovalScope_value[enumName(scopePrefix, string(s))])
}

func matchMessage(m approval.Match) palyrav1.GrantMatch {
	return palyrav1.GrantMatch(palyrav1.GrantMatch_value[enumName(matchPrefix, string(m))])
}

func subjectMessage(s approval.SubjectType) palyrav1.ApprovalSubjectType {
	return palyrav1.ApprovalSubjectType(palyrav1.ApprovalSubjectType_value[enumName(subjectPrefix, string(s))])
}

func scopeOf(s palyrav1.ApprovalScope) approval.Scope {
	return approval.Scope(word(scopePrefix, s.String()))
}

func matchOf(m palyrav1.GrantMatch) approval.Match {
	return approval.Match(word(matchPrefix, m.String()))
}

func answerState(a approval.Answer) palyrav1.ApprovalState {
	switch a.Kind() {
	case approval.ByApproval, approval.ByGrant:
		return palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED
	case approval.ByDenial:
		return palyrav1.ApprovalState_APPROVAL_STATE_DENIED
	case approval.ByExpiry:
		return palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED
	case approval.ByCancel:
		return palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED
	default:
		return palyrav1.ApprovalState_APPROVAL_STATE_UNSPECIFIED
	}
}

// timeOf returns the zero time for an absent timestamp.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// timeMessage returns nil for the zero time.
func timeMessage(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func approvalMessage(r approval.Record) *palyrav1.Approval {
	m := &palyrav1.Approval{
		ApprovalId: r.ID, ProposalId: r.ProposalID, CallDigest: r.CallDigest, SnapshotDigest: r.SnapshotDigest,
		SubjectType: subjectMessage(r.SubjectType), SubjectId: r.SubjectID, Prompt: promptMessage(r),
		RequestedBy: r.RequestedBy.String(), OnBehalfOf: r.OnBehalfOf.String(), Session: r.Session, Run: r.Run,
		Device: r.Device, Channel: r.Channel, CreatedAt: timeMessage(r.CreatedAt), ExpiresAt: timeMessage(r.ExpiresAt),
		AnsweredAt: timeMessage(r.AnsweredAt), State: stateMessage(r.State), Version: r.Version, GrantId: r.GrantID,
		Severity: r.Severity, Missing: r.Missing, RunGone: r.RunGone,
		Needs:          needsMessage(r.Needs),
		PresenceWanted: r.State == approval.Pending && strings.Contains(r.Missing, policy.PresenceProven),
	}
	if r.State == approval.Expired || r.State == approval.Cancelled || r.State == approval.Revoked {
		m.EndedBecause, m.EndedBy = r.Note, r.ChangedBy
	}
	for _, v := range r.Votes {
		m.Votes = append(m.Votes, voteMessage(v))
	}
	for _, e := range r.Edits {
		m.Edits = append(m.Edits, &palyrav1.ApprovalEdit{
			User: e.By.String(), Surface: string(e.Surface), At: timeMessage(e.At), Reason: e.Reason, WasDigest: e.WasDigest, IsDigest: e.IsDigest,
		})
	}
	return m
}

func promptMessage(r approval.Record) *palyrav1.ApprovalPrompt {
	p := r.Prompt
	m := &palyrav1.ApprovalPrompt{
		Title: p.Title, Severity: p.Severity, Summary: p.Summary, ArgumentsJson: p.Arguments, Tool: r.Binding.Tool,
		Executable: p.Runs.Executable.Path, ExecutableDigest: p.Runs.Executable.SHA256, Cwd: p.Runs.Cwd, Argv: p.Runs.Argv,
		Executor: string(p.Runs.Executor), SandboxTier: p.Runs.Tier, SandboxProfile: p.Runs.Profile,
		Egress: p.Runs.Egress, Secrets: p.Runs.Secrets, Diff: p.Diff, Notes: p.Notes, Redacted: p.Redacted,
		ExactOnly: p.ExactOnly, Lead: cmp.Or(p.Lead, p.Summary), AskedLastWeek: p.AskedLately, LastAllowed: p.LastAllowed,
		RequesterReason: p.RequesterReason,
	}
	for _, o := range p.Runs.Operands {
		m.Operands = append(m.Operands, &palyrav1.ApprovalOperand{Path: o.Path, Sha256: o.SHA256})
	}
	for _, c := range p.Why {
		m.Why = append(m.Why, whyMessage(c))
	}
	m.DiffersFromLast, m.Changed = differenceMessages(p.Differs), differenceMessages(p.Changed)
	for _, o := range p.Scopes {
		m.Scopes = append(m.Scopes, offerMessage(o))
	}
	return m
}

func differenceMessages(list []tool.Difference) []*palyrav1.ApprovalDifference {
	var out []*palyrav1.ApprovalDifference
	for _, d := range list {
		out = append(out, &palyrav1.ApprovalDifference{Field: d.Field, Was: d.Was, Is: d.Is})
	}
	return out
}

func offerMessage(o approval.Offer) *palyrav1.ApprovalScopeOffer {
	m := &palyrav1.ApprovalScopeOffer{
		Scope: scopeMessage(o.Scope), Match: matchMessage(o.Match), Covers: o.Matcher, What: o.What, By: o.By, Permission: o.Permission,
		CoveredLastWeek: o.CoveredLately,
	}
	if o.MaxTTLSeconds > 0 {
		m.Longest = durationpb.New(time.Duration(o.MaxTTLSeconds) * time.Second)
	}
	return m
}

func needsMessage(n *approval.Needs) *palyrav1.ApprovalNeeds {
	if n == nil {
		return nil
	}
	m := &palyrav1.ApprovalNeeds{Have: int32(n.Have), Want: int32(n.Want), Role: string(n.Role), Presence: n.Present, Paired: n.Paired}
	for _, s := range n.Surfaces {
		m.Surfaces = append(m.Surfaces, string(s))
	}
	return m
}

func countsMessage(t approval.Tallies) *palyrav1.ApprovalCounts {
	return &palyrav1.ApprovalCounts{
		Total: t.Total, ByState: wordCounts(t.ByState), BySeverity: wordCounts(t.BySeverity), BySubjectType: wordCounts(t.BySubject), ByTool: wordCounts(t.ByTool),
	}
}

func wordCounts[T ~string](counts map[T]int64) map[string]int64 {
	out := make(map[string]int64, len(counts))
	for w, n := range counts {
		out[string(w)] = n
	}
	return out
}

// fileMessages splits a diff into files.
func fileMessages(diff string) []*palyrav1.ApprovalFileChange {
	var list []*palyrav1.ApprovalFileChange
	for _, c := range unified.Parse(diff) {
		m := &palyrav1.ApprovalFileChange{
			Kind: "modify", Path: c.NewPath, OldPath: c.OldPath, OldMode: c.OldMode, NewMode: c.NewMode, Binary: c.Binary,
		}
		switch {
		case c.OldPath == "":
			m.Kind = "create"
		case c.NewPath == "":
			m.Kind, m.Path = "delete", c.OldPath
		case c.OldPath != c.NewPath:
			m.Kind = "rename"
		}
		for _, h := range c.Hunks {
			hunk := &palyrav1.ApprovalHunk{OldStart: int32(h.OldStart), NewStart: int32(h.NewStart)}
			for _, l := range h.Lines {
				hunk.Lines = append(hunk.Lines, &palyrav1.ApprovalLine{Kind: string(l.Kind), Text: l.Text, NoNewline: l.NoNewline})
			}
			m.Hunks = append(m.Hunks, hunk)
		}
		list = append(list, m)
	}
	return list
}

// whyMessage splits the cause's location, "file:line".
func whyMessage(c approval.Cause) *palyrav1.ApprovalWhy {
	m := &palyrav1.ApprovalWhy{PolicyId: c.PolicyID, File: c.Location, Reason: c.Reason, Condition: c.Condition}
	if i := strings.LastIndexByte(c.Location, ':'); i >= 0 {
		if line, err := strconv.ParseInt(c.Location[i+1:], 10, 32); err == nil {
			m.File, m.Line = c.Location[:i], int32(line)
		}
	}
	return m
}

func voteMessage(v approval.Vote) *palyrav1.ApprovalVote {
	roles := make([]string, len(v.Roles))
	for i, r := range v.Roles {
		roles[i] = string(r)
	}
	return &palyrav1.ApprovalVote{
		User: v.User.String(), Roles: roles, Device: v.Device, Surface: string(v.Surface), Paired: v.Paired, Present: v.Present,
		Allow: v.Allow, Scope: scopeMessage(v.Scope), Ttl: durationpb.New(v.TTL), Match: matchMessage(v.Match),
		Reason: v.Reason, ShownDigest: v.ShownDigest, At: timeMessage(v.At), Uses: v.Uses, Transport: string(v.Transport),
		Passkey: presenceproof.PasskeyProof(v.Passkey),
	}
}

func grantMessage(g approval.Grant) *palyrav1.Grant {
	m := &palyrav1.Grant{
		GrantId: g.ID, ApprovalId: g.ApprovalID, Scope: scopeMessage(g.Scope), Match: matchMessage(g.Match),
		Tool: g.Tool, Subject: g.Subject, CallDigest: g.CallDigest, Principal: g.Principal.String(), Session: g.Session,
		CreatedAt: timeMessage(g.CreatedAt), ExpiresAt: timeMessage(g.ExpiresAt), RevokedAt: timeMessage(g.RevokedAt),
		RevokedBy: g.RevokedBy, RevokeReason: g.RevokeReason, Uses: g.Uses, LastUsedAt: timeMessage(g.LastUsedAt),
		Covers: g.Covered, MostUses: g.MostUses,
	}
	for _, v := range g.MintedBy {
		m.Approvers = append(m.Approvers, v.User.String())
	}
	return m
}
