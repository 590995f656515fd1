package approval

import (
	"cmp"
	"fmt"
	"slices"

	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// PermissionGrantBroad is needed for the matcher tool.
const PermissionGrantBroad = "approval.grant_broad"

// noteRedacted is added to the notes of a prompt with redacted text.
const noteRedacted = "What looks like a secret is shown as " + tool.Redaction + "; the call has the real value."

// NewPrompt describes a planned call. The caller adds the causes; the desk adds the differences
// from the last allowed call and the offers.
func NewPrompt(p tool.Proposal, plan tool.Plan, severity string, why ...Cause) (Prompt, error) {
	args, redacted, err := tool.Redact(p.Input, p.Tool.SecretPaths)
	if err != nil {
		return Prompt{}, fmt.Errorf("redacting the arguments: %w", err)
	}
	b, hidden, err := redactBinding(plan.Binding, p.Tool.SecretPaths)
	if err != nil {
		return Prompt{}, fmt.Errorf("redacting the call: %w", err)
	}
	notes := slices.Clone(plan.Preview.Notes)
	if hidden || len(redacted) > 0 {
		notes = append(notes, noteRedacted)
	}
	prompt := Prompt{
		Title: cmp.Or(p.Tool.Title, p.Tool.Name), Severity: severity, Summary: plan.Preview.Summary,
		Arguments: args, Redacted: redacted,
		Runs: Execution{
			Executable: b.Executable, Argv: slices.Clone(b.Argv), Cwd: b.Cwd, Operands: slices.Clone(b.Operands),
			Executor: p.Tool.Executor, Tier: plan.Facts.SandboxTier, Profile: b.SandboxProfile,
			Egress: slices.Clone(b.Egress), Secrets: slices.Clone(plan.Facts.Secrets),
		},
		Workspace: plan.Facts.Workspace, Contents: contentsOf(plan), Unlisted: plan.Unlisted, Diff: plan.Preview.Diff, Why: why, Notes: notes, Lead: lead(plan, b),
	}
	return prompt.clean(), nil
}

func contentsOf(plan tool.Plan) (paths []string) {
	for _, f := range plan.Contents {
		paths = append(paths, f.Facts.Path)
	}
	return paths
}

// lead returns the short identification of a call, or "" if only its summary exists.
func lead(plan tool.Plan, shown tool.Binding) string {
	switch f := plan.Facts; {
	case plan.Preview.Lead != "":
		return plan.Preview.Lead
	case len(shown.Argv) > 0:
		return text.ShellQuote(shown.Argv)
	case f.Path != "" && f.Workspace != "":
		return f.Workspace + ":" + f.Path
	default:
		return ""
	}
}

// clean returns p with its texts in displayable form. Text in the form of a key is replaced,
// and the notes then state this. Hidden characters are escaped. clean is idempotent.
func (p Prompt) clean() Prompt {
	hidden := false
	show := func(content string) string {
		safe := tool.RedactText(content)
		hidden = hidden || safe != content
		return text.Visible(safe)
	}
	p.Title, p.Summary, p.Diff, p.Lead = show(p.Title), show(p.Summary), show(p.Diff), show(p.Lead)
	p.RequesterReason = show(p.RequesterReason)
	p.Notes = slices.Clone(p.Notes)
	for i, note := range p.Notes {
		p.Notes[i] = show(note)
	}
	p.Why = slices.Clone(p.Why)
	for i, c := range p.Why {
		p.Why[i] = Cause{show(c.PolicyID), show(c.Location), show(c.Reason), show(c.Condition)}
	}
	if hidden && !slices.Contains(p.Notes, noteRedacted) {
		p.Notes = append(p.Notes, noteRedacted)
	}
	return p
}
