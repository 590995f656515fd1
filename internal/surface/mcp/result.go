package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// metaKey is the _meta member with the gateway's record of a call.
const metaKey = "palyra.dev/call"

// callMeta refers from a result to the records of its call.
type callMeta struct {
	Proposal    string `json:"proposal_id,omitempty"`
	Decision    string `json:"decision_id,omitempty"`
	Attestation string `json:"attestation_id,omitempty"`
	Approval    string `json:"approval_id,omitempty"`
	Grant       string `json:"grant_id,omitempty"`
	ExpiresAt   string `json:"expires_at,omitempty"`
	Outcome     string `json:"outcome,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Remedy      string `json:"remedy,omitempty"`
	// Edited is set for a call that approvers changed before they approved it.
	Edited *tool.Edited `json:"executed_as_edited,omitempty"`
}

// Result types, in the revisions that define them.
const (
	complete      = "complete"
	inputRequired = "input_required"
)

// result is the result of tools/call. The library's own type cannot be used, because its result
// type cannot be set.
type result struct {
	mcp.ResultBase
	ResultType        string              `json:"resultType,omitempty"`
	Content           []any               `json:"content,omitempty"`
	StructuredContent json.RawMessage     `json:"structuredContent,omitempty"`
	IsError           bool                `json:"isError,omitempty"`
	InputRequests     mcp.InputRequestMap `json:"inputRequests,omitempty"`
	RequestState      string              `json:"requestState,omitempty"`
}

// textContent is content of type text.
type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func textOf(lines ...string) []any {
	return []any{textContent{"text", strings.Join(lines, "\n")}}
}

func (r *result) about(m callMeta) *result {
	r.SetMeta(map[string]any{metaKey: m})
	return r
}

// refusal returns a tool's error with the reason and the next step.
func refusal(why *reason.Error, m callMeta) *result {
	m.Reason, m.Remedy = string(why.Code), why.NextStep()
	r := &result{ResultType: complete, IsError: true, Content: textOf(string(why.Code)+": "+why.Message, "Next: "+m.Remedy)}
	return r.about(m)
}

// resultOf returns the client's result of a decided tool call.
func resultOf(name string, o call.Outcome) *result {
	d := o.Decision
	m := callMeta{
		Proposal: d.ProposalID, Decision: d.ID, Approval: d.ApprovalID, Grant: d.GrantID,
		Attestation: o.Attestation.Envelope.ID, Outcome: string(o.Report.Outcome), Edited: o.Report.Edited,
	}
	if !d.Allowed {
		m.Outcome = "denied"
		return refusal(&reason.Error{Code: d.Reason, Message: d.Message, Remedy: d.Remedy}, m)
	}
	return reported(name, o.Report, m).editedFirst(o.Report.Edited)
}

// editedFirst prepends a notice that the call ran with other input than the proposed one.
func (r *result) editedFirst(e *tool.Edited) *result {
	if e != nil {
		r.Content = append(textOf(e.Text()), r.Content...)
	}
	return r
}

// reported converts the report of a tool.
func reported(name string, report tool.Report, m callMeta) *result {
	if report.Executor.Name == tool.MCPUpstream {
		if r, ok := upstreamResult(name, report, m); ok {
			return r
		}
	}
	r := &result{ResultType: complete, IsError: report.Outcome != tool.Succeeded}
	if len(report.Result) > 0 {
		r.Content = textOf(string(report.Result))
		if report.Result[0] == '{' {
			r.StructuredContent = report.Result
		}
	}
	if r.IsError {
		m.Reason, m.Remedy = report.Reason, report.Remedy
		lines := []string{cmp.Or(report.Reason, string(report.Outcome)) + ": " + report.Message}
		if report.Remedy != "" {
			lines = append(lines, "Next: "+report.Remedy)
		}
		r.Content = append(textOf(lines...), r.Content...)
	}
	if r.Content == nil {
		r.Content = textOf("")
	}
	return r.about(m)
}

// upstreamResult is the unchanged result of an upstream server, with the gateway's record added.
// Its resources have the URIs by which the client can read them.
func upstreamResult(name string, report tool.Report, m callMeta) (*result, bool) {
	var theirs struct {
		Meta              map[string]any    `json:"_meta"`
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent"`
		IsError           bool              `json:"isError"`
	}
	if canonical.Read(report.Result, &theirs) != nil || theirs.Content == nil && theirs.StructuredContent == nil {
		return nil, false
	}
	r := &result{ResultType: complete, IsError: theirs.IsError || report.Outcome != tool.Succeeded, Content: []any{}}
	server, _, _ := strings.Cut(name, "/")
	for _, one := range theirs.Content {
		content, ok := contentOf(server, one)
		if !ok {
			return nil, false
		}
		r.Content = append(r.Content, content)
	}
	if len(r.Content) == 0 {
		r.Content = textOf("")
	}
	if s := bytes.TrimSpace(theirs.StructuredContent); len(s) > 0 && s[0] == '{' {
		r.StructuredContent = json.RawMessage(s)
	}
	r.about(m)
	for key, value := range theirs.Meta {
		if key != metaKey {
			r.Meta[key] = value
		}
	}
	return r, true
}

// contentOf returns a server's content for clients: unchanged, unless it is a resource.
func contentOf(server string, text json.RawMessage) (content any, ok bool) {
	if text[0] != '{' {
		return nil, false
	}
	if !bytes.Contains(text, []byte("resource")) && !bytes.Contains(text, []byte(`\u`)) {
		return text, true
	}
	var fields map[string]any
	if json.Unmarshal(text, &fields) != nil {
		return nil, false
	}
	wireContent(server, fields)
	return fields, true
}

// clipped returns external text, shortened and escaped for a message.
func clipped(s string) string { return text.Visible(text.Clip(s, 128)) }
