package cli

import (
	"fmt"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
)

// approvalPage writes all that a person must see before they answer. Nothing
// is cut, and nothing that came from a model is markup.
func (a *app) approvalPage(p *page, v *palyrav1.Approval) {
	prompt := v.GetPrompt()
	p.heading("%s", firstOf(prompt.GetTitle(), v.GetSubjectId()))
	p.block("", prompt.GetSummary())
	p.gap()
	p.field("approval", v.GetApprovalId())
	p.field("state", short(v.GetState()))
	p.field("severity", firstOf(prompt.GetSeverity(), v.GetSeverity()))
	p.field("asked by", askedBy(v))
	p.field("subject", strings.TrimSpace(short(v.GetSubjectType())+" "+v.GetSubjectId()))
	p.field("digest", v.GetCallDigest())
	a.approvalTimes(p, v)
	p.gap()
	if aboutChanges(v) { // what the program did comes before the program
		p.diff("change", prompt.GetDiff())
		p.block("notes", strings.Join(prompt.GetNotes(), "\n"))
		p.gap()
	}
	whatRuns(p, prompt)
	p.json("arguments", argumentsOf(prompt))
	p.list("not shown", prompt.GetRedacted())
	if !aboutChanges(v) {
		p.diff("change", prompt.GetDiff())
	}
	p.block("why it asks", strings.Join(whyLines(prompt), "\n"))
	p.block("differs from the last allowed call", strings.Join(differenceLines(prompt), "\n"))
	p.block("a yes can cover", strings.Join(scopeLines(prompt), "\n"))
	if !aboutChanges(v) {
		p.block("notes", strings.Join(prompt.GetNotes(), "\n"))
	}
	p.block("votes", strings.Join(voteLines(v), "\n"))
	p.field("missing", v.GetMissing())
	p.field("grant", v.GetGrantId())
	if v.GetRunGone() {
		p.field("note", "nobody waits for this answer any more")
	}
}

// aboutChanges reports whether an approval asks about what a program changed in
// its copy of a workspace.
func aboutChanges(v *palyrav1.Approval) bool {
	return strings.HasPrefix(v.GetSubjectId(), "commit:")
}

// summaryOf is what an approval is about, in one line.
func summaryOf(v *palyrav1.Approval) string {
	return firstOf(v.GetPrompt().GetSummary(), v.GetPrompt().GetTitle(), v.GetSubjectId())
}

func askedBy(v *palyrav1.Approval) string {
	who := v.GetRequestedBy()
	if owner := v.GetOnBehalfOf(); owner != "" && owner != who {
		who += " on behalf of " + owner
	}
	for _, part := range [][2]string{{"session", v.GetSession()}, {"run", v.GetRun()}, {"device", v.GetDevice()}, {"channel", v.GetChannel()}} {
		if part[1] != "" {
			who += ", " + part[0] + " " + part[1]
		}
	}
	return who
}

func (a *app) approvalTimes(p *page, v *palyrav1.Approval) {
	p.field("asked", a.moment(v.GetCreatedAt()))
	if v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		p.field("time left", strings.TrimPrefix(a.relative(v.GetExpiresAt()), "in "))
		return
	}
	p.field("answered", a.moment(v.GetAnsweredAt()))
}

func whatRuns(p *page, prompt *palyrav1.ApprovalPrompt) {
	p.field("tool", prompt.GetTool())
	p.field("program", prompt.GetExecutable())
	p.field("its digest", prompt.GetExecutableDigest())
	p.list("argv", prompt.GetArgv())
	p.field("in", prompt.GetCwd())
	p.field("executor", prompt.GetExecutor())
	p.field("sandbox", firstOf(prompt.GetSandboxProfile(), prompt.GetSandboxTier()))
	p.list("egress", prompt.GetEgress())
	p.list("secrets", prompt.GetSecrets())
	p.list("files bound", operandLines(prompt))
}

// operandLines name the files that the approval is bound to, by content.
func operandLines(prompt *palyrav1.ApprovalPrompt) []string {
	var lines []string
	for _, o := range prompt.GetOperands() {
		content := "no such file yet"
		if o.GetSha256() != "" {
			content = o.GetSha256()
		}
		lines = append(lines, o.GetPath()+"  "+content)
	}
	return lines
}

func argumentsOf(prompt *palyrav1.ApprovalPrompt) []byte {
	if len(prompt.GetArgumentsJson()) == 0 {
		return []byte("{}")
	}
	return prompt.GetArgumentsJson()
}

func whyLines(prompt *palyrav1.ApprovalPrompt) []string {
	var lines []string
	for _, w := range prompt.GetWhy() {
		line := "policy " + w.GetPolicyId()
		if w.GetFile() != "" {
			line += fmt.Sprintf(" (%s:%d)", w.GetFile(), w.GetLine())
		}
		if w.GetReason() != "" {
			line += ": " + w.GetReason()
		}
		lines = append(lines, line)
		if w.GetCondition() != "" {
			lines = append(lines, "  "+w.GetCondition())
		}
	}
	return lines
}

func differenceLines(prompt *palyrav1.ApprovalPrompt) []string {
	var lines []string
	for _, d := range prompt.GetDiffersFromLast() {
		lines = append(lines, d.GetField()+":", "  was "+d.GetWas(), "  is  "+d.GetIs())
	}
	return lines
}

func scopeLines(prompt *palyrav1.ApprovalPrompt) []string {
	var lines []string
	for _, s := range prompt.GetScopes() {
		name := short(s.GetScope())
		if m := short(s.GetMatch()); m != "" {
			name += " " + m
		}
		lines = append(lines, fmt.Sprintf("%-18s %s", name, s.GetCovers()))
	}
	return lines
}

func voteLines(v *palyrav1.Approval) []string {
	var lines []string
	for _, vote := range v.GetVotes() {
		word := "no"
		if vote.GetAllow() {
			word = strings.TrimSpace("yes, " + short(vote.GetScope()) + " " + short(vote.GetMatch()))
			if ttl := vote.GetTtl(); ttl != nil && ttl.AsDuration() > 0 {
				word += " for " + span(ttl.AsDuration())
			}
		}
		line := fmt.Sprintf("%s: %s (%s, %s)", vote.GetUser(), word, vote.GetSurface(), clock(vote.GetAt()))
		if vote.GetReason() != "" {
			line += ": " + vote.GetReason()
		}
		lines = append(lines, line)
	}
	return lines
}
