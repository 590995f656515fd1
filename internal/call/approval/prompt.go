package approval

import (
	"encoding/json"
	"fmt"
	"slices"

	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// Prompt is everything a person sees of an ask. It is data; nothing in it is
// markup, and what a screen would hide is written out (see Visible), except in
// Arguments and Runs, which stay exact. What has the form of a key is replaced
// everywhere, and Notes say so.
type Prompt struct {
	Title    string `json:"title"`
	Severity string `json:"severity"`
	// Summary is one sentence in plain words.
	Summary string `json:"summary"`
	// Arguments is the full canonical JSON, never truncated. Values at the
	// JSON Pointers (RFC 6901) in Redacted are replaced.
	Arguments json.RawMessage `json:"arguments"`
	Redacted  []string        `json:"redacted"`
	Runs      Execution       `json:"runs"`
	// Workspace is that of the files in Diff and of the operands, "" when there are none.
	Workspace string `json:"workspace,omitempty"`
	// Contents are the files, relative to Workspace, of which the prompt may say what they
	// contain or whether they are there. Unlisted is true where there may be more.
	Contents []string `json:"contents,omitempty"`
	Unlisted bool     `json:"unlisted,omitempty"`
	// Diff is a unified diff of the files that would change.
	Diff string  `json:"diff"`
	Why  []Cause `json:"why"`
	// Differs is what differs from the last allowed call of the same tool by
	// the same principal; LastAllowed is false when there was none.
	Differs     []tool.Difference `json:"differs"`
	LastAllowed bool              `json:"last_allowed"`
	Scopes      []Offer           `json:"scopes"`
	// ExactOnly says why no wider grant is offered than for the very same call.
	ExactOnly string   `json:"exact_only,omitempty"`
	Notes     []string `json:"notes"`
	// Changed is how the call differs from the one that was proposed, where people
	// edited it.
	Changed []tool.Difference `json:"changed,omitempty"`
	// RequesterReason is why the requester wants the call, in their own words; "" when
	// they said nothing.
	RequesterReason string `json:"requester_reason,omitempty"`
	// Lead stands first: the command line, the file, or the address.
	Lead string `json:"lead,omitempty"`
	// AskedLately is how often people were asked about the same subject, or about the
	// same tool where a call has none, by the same requester in the 7 days before.
	AskedLately int64 `json:"asked_lately,omitempty"`
}

// Execution is what will run.
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

// Cause is one policy that made it ask.
type Cause struct {
	PolicyID string `json:"policy_id"`
	// Location is "file:line".
	Location  string `json:"location"`
	Reason    string `json:"reason"`
	Condition string `json:"condition"`
}

// Offer is one answer that a person may give, with what it would allow.
type Offer struct {
	Scope Scope `json:"scope"`
	Match Match `json:"match"`
	// What says in a person's words which calls it would cover, By whose; both are
	// "" for once.
	What string `json:"what,omitempty"`
	By   string `json:"by,omitempty"`
	// Matcher says all of it in one sentence, with the longest time.
	Matcher string `json:"matcher"`
	// MaxTTLSeconds is the longest life of the grant; 0 for once.
	MaxTTLSeconds int64 `json:"max_ttl_seconds"`
	// Permission is what the approver needs beside approval.decide.
	Permission string `json:"permission"`
	// CoveredLately is how many calls of the 7 days before it would have covered, asked
	// about or not.
	CoveredLately int64 `json:"covered_lately,omitempty"`
}

// PermissionGrantBroad is needed for the matcher tool.
const PermissionGrantBroad = "approval.grant_broad"

// noteRedacted is among the notes of a prompt in which something is hidden.
const noteRedacted = "What looks like a secret is shown as " + tool.Redaction + "; the call has the real value."

// NewPrompt describes a planned call. The caller adds why policy asks; the
// desk adds the difference from the last allowed call and the scopes.
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
	title := p.Tool.Title
	if title == "" {
		title = p.Tool.Name
	}
	prompt := Prompt{
		Title: title, Severity: severity, Summary: plan.Preview.Summary,
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

// lead is what a call is known by at a glance, "" where nothing but its summary is.
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

// clean returns p with its texts as a person may see them: what has the form
// of a key is replaced, which the notes then say, and hidden characters are
// written out. What is clean stays as it is.
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
