package approval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// Prompt is the complete content displayed to an approver. It is data and contains no markup.
// Characters that a screen would hide are escaped (see Visible), except in Arguments and Runs,
// which stay exact. Text in the form of a key is replaced everywhere, and Notes state this.
type Prompt struct {
	Title    string `json:"title"`
	Severity string `json:"severity"`
	// Summary is one sentence in plain words.
	Summary string `json:"summary"`
	// Arguments is the full canonical JSON, never truncated. Values at the JSON Pointers (RFC
	// 6901) in Redacted are replaced.
	Arguments json.RawMessage `json:"arguments"`
	Redacted  []string        `json:"redacted"`
	Runs      Execution       `json:"runs"`
	// Workspace is the workspace of the files in Diff and of the operands, or "" without files.
	Workspace string `json:"workspace,omitempty"`
	// Contents are the files, relative to Workspace, whose content or existence the prompt may
	// reveal. Unlisted is true if there may be more.
	Contents []string `json:"contents,omitempty"`
	Unlisted bool     `json:"unlisted,omitempty"`
	// Diff is a unified diff of the files that would change.
	Diff string  `json:"diff"`
	Why  []Cause `json:"why"`
	// Differs lists the differences from the last allowed call of the same tool by the same
	// principal; LastAllowed is false if there was none.
	Differs     []tool.Difference `json:"differs"`
	LastAllowed bool              `json:"last_allowed"`
	Scopes      []Offer           `json:"scopes"`
	// ExactOnly is the reason why only a grant for the identical call is offered.
	ExactOnly string   `json:"exact_only,omitempty"`
	Notes     []string `json:"notes"`
	// Changed lists the differences from the proposed call if people edited it.
	Changed []tool.Difference `json:"changed,omitempty"`
	// RequesterReason is the requester's reason in their own words, or "".
	RequesterReason string `json:"requester_reason,omitempty"`
	// Lead is displayed first: the command line, the file, or the address.
	Lead string `json:"lead,omitempty"`
	// AskedLately is the number of approval requests in the last 7 days by the same requester
	// for the same subject, or for the same tool if the call has no subject.
	AskedLately int64 `json:"asked_lately,omitempty"`
}

// Execution describes the program that will run.
type Execution struct {
	Executable tool.Executable `json:"executable"`
	Argv       []string        `json:"argv"`
	// Cwd is "<workspace>:<relative path>".
	Cwd      string         `json:"cwd"`
	Operands []tool.Operand `json:"operands"`
	Executor tool.Executor  `json:"executor"`
	// Tier is the sandbox tier, Profile its workspace mode and limits.
	Tier    string `json:"tier"`
	Profile string `json:"profile"`
	// Egress is the mode and hosts, Secrets the names of secrets.
	Egress  []string `json:"egress"`
	Secrets []string `json:"secrets"`
}

// Cause is one policy that requires the approval.
type Cause struct {
	PolicyID string `json:"policy_id"`
	// Location is "file:line".
	Location  string `json:"location"`
	Reason    string `json:"reason"`
	Condition string `json:"condition"`
}

// Offer is one possible answer with a description of its coverage.
type Offer struct {
	Scope Scope `json:"scope"`
	Match Match `json:"match"`
	// What describes the calls that a grant would cover, and By describes their callers. Both are
	// "" for scope once.
	What string `json:"what,omitempty"`
	By   string `json:"by,omitempty"`
	// Matcher describes the coverage in one sentence, with the maximum duration.
	Matcher string `json:"matcher"`
	// MaxTTLSeconds is the maximum lifetime of the grant; 0 for once.
	MaxTTLSeconds int64 `json:"max_ttl_seconds"`
	// Permission is required in addition to approval.decide.
	Permission string `json:"permission"`
	// CoveredLately is the number of calls in the last 7 days that it would have covered,
	// including calls that needed no approval.
	CoveredLately int64 `json:"covered_lately,omitempty"`
}

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
