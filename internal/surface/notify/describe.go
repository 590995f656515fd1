package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/text"
)

// Description is a notice in the form that a target receives, limited by the Include of the target.
type Description struct {
	Kind     Kind      `json:"kind"`
	Severity string    `json:"severity"`
	Text     string    `json:"text"`
	At       time.Time `json:"at"`
	// Event is the sequence number of the event in the journal.
	Event    int64     `json:"event,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Actor    string    `json:"actor,omitempty"`
	Link     string    `json:"link,omitempty"`
	Approval *Question `json:"approval,omitempty"`
}

// Question is an approval in a Description.
type Question struct {
	ID          string         `json:"approval_id"`
	Version     int64          `json:"version"`
	State       approval.State `json:"state"`
	CallDigest  string         `json:"call_digest"`
	Tool        string         `json:"tool"`
	SubjectType string         `json:"subject_type"`
	RequestedBy string         `json:"requested_by"`
	OnBehalfOf  string         `json:"on_behalf_of"`
	Run         string         `json:"run,omitempty"`
	Session     string         `json:"session,omitempty"`
	CreatedAt   time.Time      `json:"created_at"`
	ExpiresAt   time.Time      `json:"expires_at"`
	Missing     string         `json:"missing,omitempty"`
	DecidedBy   string         `json:"decided_by,omitempty"`
	// Summary and RequesterReason are set for IncludeSummary and IncludeFull, and the following
	// fields only for IncludeFull. Their text comes from the requester.
	Summary string `json:"summary,omitempty"`
	// RequesterReason is the requester's own reason for the call. It is not verified.
	RequesterReason string          `json:"requester_reason,omitempty"`
	Command         string          `json:"command_line,omitempty"`
	Arguments       json.RawMessage `json:"arguments,omitempty"`
	Diff            string          `json:"diff,omitempty"`
	// Truncated is true if the command line, the arguments or the diff was too long and is omitted.
	Truncated bool `json:"truncated,omitempty"`
}

// mostDetail is the highest size in bytes of the command line, the arguments and the diff, each.
const mostDetail = 64 << 10

// Describe returns the parts of the message that the target may receive.
func (m Message) Describe() Description {
	n := m.Notice
	d := Description{Kind: n.Kind, Severity: n.Severity, Text: n.Text, At: n.At, Event: n.Seq, Subject: n.Subject, Actor: n.Actor, Link: n.Link}
	r := n.Approval
	if r == nil {
		return d
	}
	q := &Question{
		ID: r.ID, Version: r.Version, State: r.State, CallDigest: r.CallDigest, Tool: plain(r.Binding.Tool), SubjectType: string(r.SubjectType),
		RequestedBy: r.RequestedBy.String(), OnBehalfOf: r.OnBehalfOf.String(), Run: r.Run, Session: plain(r.Session),
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, Missing: r.Missing,
	}
	if r.State != approval.Pending {
		q.DecidedBy = r.ChangedBy
	}
	if m.Include == IncludeSummary || m.Include == IncludeFull {
		q.Summary, q.RequesterReason = text.Visible(r.Prompt.Summary), text.Visible(r.Prompt.RequesterReason)
	}
	if m.Include == IncludeFull {
		q.fill(r.Prompt)
	}
	d.Approval = q
	return d
}

// fill adds the call itself. The prompt was redacted when it was created.
func (q *Question) fill(p approval.Prompt) {
	if len(p.Runs.Argv) > 0 {
		q.Command = text.Visible(text.ShellQuote(p.Runs.Argv))
	}
	q.Arguments, q.Diff = p.Arguments, text.Visible(p.Diff)
	if len(q.Arguments) > mostDetail {
		q.Arguments, q.Truncated = nil, true
	}
	if len(q.Diff) > mostDetail {
		q.Diff, q.Truncated = "", true
	}
	if len(q.Command) > mostDetail {
		q.Command, q.Truncated = "", true
	}
}

// Text returns a description as plain text. Text that the requester wrote is quoted: each of its
// lines starts with a mark.
func Text(d Description) string {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	b.WriteString(d.Text + "\n\n")
	field("severity", d.Severity)
	if q := d.Approval; q != nil {
		field("approval", q.ID)
		field("state", string(q.State))
		field("tool", q.Tool)
		field("requested by", q.RequestedBy)
		if q.OnBehalfOf != q.RequestedBy {
			field("on behalf of", q.OnBehalfOf)
		}
		field("decided by", q.DecidedBy)
		field("still needed", q.Missing)
		if q.State == approval.Pending {
			field("expires", q.ExpiresAt.UTC().Format(time.RFC3339))
		}
		field("digest", q.CallDigest)
		quote(&b, "description by the requester", q.Summary)
		quote(&b, "reason by the requester", q.RequesterReason)
		quote(&b, "command line", q.Command)
		quote(&b, "arguments", string(q.Arguments))
		quote(&b, "diff", q.Diff)
		if q.Truncated {
			b.WriteString("\nParts of the call are too long and are omitted.\n")
		}
	} else {
		field("subject", d.Subject)
		field("by", d.Actor)
	}
	field("time", d.At.UTC().Format(time.RFC3339))
	if d.Link != "" {
		b.WriteString("\n" + d.Link + "\n")
	}
	return b.String()
}

// quote writes the text of another party below a name.
func quote(b *strings.Builder, name, content string) {
	if content == "" {
		return
	}
	b.WriteString("\n" + name + ":\n")
	for l := range strings.Lines(text.Visible(content)) {
		b.WriteString("> " + strings.TrimRight(l, "\n") + "\n")
	}
}
