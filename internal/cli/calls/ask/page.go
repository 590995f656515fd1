package ask

import (
	"cmp"
	"fmt"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

// Page writes everything that must be reviewed before an answer. Nothing is truncated, and no text
// of a model is interpreted as markup.
func Page(a *client.App, p *printer.Page, v *palyrav1.Approval) {
	prompt := v.GetPrompt()
	p.Heading("%s", cmp.Or(prompt.GetTitle(), v.GetSubjectId()))
	if lead := prompt.GetLead(); lead != "" && !strings.Contains(prompt.GetSummary(), lead) {
		p.Block("", lead)
	}
	p.Block("", prompt.GetSummary())
	p.Gap()
	p.Field("approval", v.GetApprovalId())
	p.Field("state", printer.Enum(v.GetState()))
	p.Field("severity", cmp.Or(prompt.GetSeverity(), v.GetSeverity()))
	p.Field("asked by", askedBy(v))
	p.Wrapped("reason given", prompt.GetRequesterReason())
	p.Field("subject", strings.TrimSpace(printer.Enum(v.GetSubjectType())+" "+v.GetSubjectId()))
	p.Field("digest", v.GetCallDigest())
	approvalTimes(a, p, v)
	p.Gap()
	if aboutChanges(v) { // the changes of the program come before the program
		p.Diff("change", prompt.GetDiff())
		p.Block("notes", strings.Join(prompt.GetNotes(), "\n"))
		p.Gap()
	}
	whatRuns(p, prompt)
	p.JSON("arguments", argumentsOf(prompt))
	p.List("not shown", prompt.GetRedacted())
	if !aboutChanges(v) {
		p.Diff("change", prompt.GetDiff())
	}
	p.Block("why approval is needed", strings.Join(whyLines(prompt), "\n"))
	p.Block("differs from the last allowed call", strings.Join(differenceLines(prompt), "\n"))
	p.Field("asked before", askedBefore(prompt))
	p.Block("an approval can cover", strings.Join(scopeLines(prompt), "\n"))
	p.Wrapped("only this call", prompt.GetExactOnly())
	if !aboutChanges(v) {
		p.Block("notes", strings.Join(prompt.GetNotes(), "\n"))
	}
	p.Block("edited, instead of the proposal", strings.Join(changedLines(v), "\n"))
	p.Block("votes", strings.Join(voteLines(v), "\n"))
	p.Wrapped("ended because", endedBecause(v))
	p.Field("missing", v.GetMissing())
	p.Field("needs", Needs(v))
	p.Field("you", standing(v))
	p.Field("grant", v.GetGrantId())
	if v.GetRunGone() {
		p.Field("note", "this answer is no longer awaited")
	}
}

// endedBecause returns why and by whom an approval ended without being used.
func endedBecause(v *palyrav1.Approval) string {
	if v.GetEndedBecause() == "" || v.GetEndedBy() == "" {
		return v.GetEndedBecause()
	}
	return v.GetEndedBecause() + " (" + v.GetEndedBy() + ")"
}

// aboutChanges reports whether an approval is for changes of a program in its copy of a workspace.
func aboutChanges(v *palyrav1.Approval) bool {
	return strings.HasPrefix(v.GetSubjectId(), "commit:")
}

// aboutGateway reports whether an approval is for a change of the gateway itself.
func aboutGateway(v *palyrav1.Approval) bool {
	switch v.GetSubjectType() {
	case palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_GATEWAY_CHANGE, palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_DEVICE_PAIRING:
		return true
	default:
		return false
	}
}

// ApprovalSummary describes an approval on one line.
func ApprovalSummary(v *palyrav1.Approval) string {
	return cmp.Or(v.GetPrompt().GetSummary(), v.GetPrompt().GetTitle(), v.GetSubjectId())
}

// SummaryLines is ApprovalSummary as displayed directly above an answer.
func SummaryLines(v *palyrav1.Approval) string { return printer.Hanging(ApprovalSummary(v)) + "\n" }

func askedBy(v *palyrav1.Approval) string {
	who := printer.OnBehalf(v.GetRequestedBy(), v.GetOnBehalfOf())
	run := v.GetRun()
	if run == v.GetProposalId() {
		run = "" // a call outside of runs
	}
	for _, part := range [][2]string{{"session", v.GetSession()}, {"run", run}, {"device", v.GetDevice()}, {"channel", v.GetChannel()}} {
		if part[1] != "" {
			who += ", " + part[0] + " " + part[1]
		}
	}
	return who
}

func approvalTimes(a *client.App, p *printer.Page, v *palyrav1.Approval) {
	p.Field("asked", a.Moment(v.GetCreatedAt()))
	if v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		p.Field("time left", strings.TrimPrefix(a.Relative(v.GetExpiresAt()), "in "))
		return
	}
	p.Field("answered", a.Moment(v.GetAnsweredAt()))
}

func whatRuns(p *printer.Page, prompt *palyrav1.ApprovalPrompt) {
	p.Field("tool", prompt.GetTool())
	p.Field("program", prompt.GetExecutable())
	p.Field("its digest", prompt.GetExecutableDigest())
	p.List("argv", prompt.GetArgv())
	p.Field("in", prompt.GetCwd())
	p.Field("executor", prompt.GetExecutor())
	p.Field("sandbox", cmp.Or(prompt.GetSandboxProfile(), prompt.GetSandboxTier()))
	p.List("egress", prompt.GetEgress())
	p.List("secrets", prompt.GetSecrets())
	p.List("files bound", operandLines(prompt))
}

// operandLines lists the files that the approval is bound to, by content.
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
		name := printer.Enum(s.GetScope())
		if m := printer.Enum(s.GetMatch()); m != "" {
			name += " " + m
		}
		line := fmt.Sprintf("%-18s %s", name, s.GetCovers())
		if n := s.GetCoveredLastWeek(); n > 0 {
			line += fmt.Sprintf("; of the last 7 days, %s", calls(n))
		}
		lines = append(lines, line)
	}
	return lines
}

func calls(n int64) string {
	if n == 1 {
		return "1 call"
	}
	return text.Plural(n, "call")
}

// changedLines lists the edits of the call since it was proposed.
func changedLines(v *palyrav1.Approval) []string {
	var lines []string
	for _, d := range v.GetPrompt().GetChanged() {
		lines = append(lines, d.GetField()+":", "  was "+d.GetWas(), "  is  "+d.GetIs())
	}
	for _, e := range v.GetEdits() {
		line := fmt.Sprintf("by %s (%s, %s)", e.GetUser(), e.GetSurface(), printer.Clock(e.GetAt()))
		if e.GetReason() != "" {
			line += ": " + e.GetReason()
		}
		lines = append(lines, line)
	}
	return lines
}

// askedBefore returns how often the same was requested recently.
func askedBefore(prompt *palyrav1.ApprovalPrompt) string {
	if prompt.GetAskedLastWeek() == 0 {
		return ""
	}
	return times(prompt.GetAskedLastWeek()) + " in the 7 days before"
}

// Needs describes the missing votes: "1 of 2, with role security, on console".
func Needs(v *palyrav1.Approval) string {
	n := v.GetNeeds()
	if n == nil {
		return ""
	}
	text := fmt.Sprintf("%d of %d", n.GetHave(), n.GetWant())
	if n.GetRole() != "" {
		text += ", with role " + n.GetRole()
	}
	if len(n.GetSurfaces()) > 0 {
		text += ", on " + strings.Join(n.GetSurfaces(), " or ")
	}
	if n.GetPresence() {
		text += ", with proof of presence"
	}
	if n.GetPaired() {
		text += ", from a paired device"
	}
	return text
}

// standing describes the effect of the caller's answer in advance.
func standing(v *palyrav1.Approval) string {
	you := v.GetYou()
	switch {
	case you == nil || v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING:
		return ""
	case you.GetMayDecide():
		return "may answer"
	case you.GetWithPresence():
		return "may answer with a proof of presence"
	}
	return "may not answer: " + you.GetMessage()
}

func voteLines(v *palyrav1.Approval) []string {
	var lines []string
	for _, vote := range v.GetVotes() {
		word := "no"
		if vote.GetAllow() {
			word = strings.TrimSpace("yes, " + printer.Enum(vote.GetScope()) + " " + printer.Enum(vote.GetMatch()))
			if ttl := vote.GetTtl(); ttl != nil && ttl.AsDuration() > 0 {
				word += " for " + printer.Span(ttl.AsDuration())
			}
			if vote.GetUses() > 0 {
				word += ", " + times(vote.GetUses())
			}
		}
		line := fmt.Sprintf("%s: %s (%s, %s)", vote.GetUser(), word, vote.GetSurface(), printer.Clock(vote.GetAt()))
		if vote.GetReason() != "" {
			line += ": " + vote.GetReason()
		}
		lines = append(lines, line)
	}
	return lines
}

// Show prints an approval to stderr in full, before it is answered.
func Show(a *client.App, v *palyrav1.Approval) {
	p := &printer.Page{Style: a.ErrStyle()}
	p.Gap()
	Page(a, p, v)
	_, _ = a.Err.Write([]byte(p.String()))
}
