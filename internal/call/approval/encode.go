package approval

import (
	"encoding/json"
	"errors"
	"fmt"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// payload is the part of a record about the call itself, which may contain or quote a file's
// content. A store keeps it sealed.
type payload struct {
	Prompt  Prompt       `json:"prompt"`
	Binding tool.Binding `json:"binding"`
}

// Sealed reports whether a store must seal the prompt and the binding of r. An ask about the
// gateway has no data of a tool or a workspace, unless it reverts changes. It must be possible
// to answer such an ask while the vault is locked.
func (r Record) Sealed() bool {
	return r.SubjectType != SubjectGatewayChange && r.SubjectType != SubjectDevicePairing || r.Prompt.Workspace != ""
}

// EncodeOutline returns the stored form of r without the content of EncodePayload: prompt and
// binding are an outline.
func EncodeOutline(r Record) ([]byte, error) { return EncodeRecord(r.outline()) }

// EncodePayload returns prompt and binding of r as RFC 8785 JSON, which a store seals.
func EncodePayload(r Record) ([]byte, error) {
	return canonical.Marshal(payload{r.Prompt, r.Binding})
}

// outline reduces prompt and binding to the members that the journal's events have too.
func (r Record) outline() Record {
	r.Prompt = Prompt{Title: r.Prompt.Title, Severity: r.Prompt.Severity, Summary: r.Prompt.Summary, Arguments: json.RawMessage("{}"),
		Workspace: r.Prompt.Workspace, Scopes: r.Prompt.Scopes, ExactOnly: r.Prompt.ExactOnly, AskedLately: r.Prompt.AskedLately, RequesterReason: r.Prompt.RequesterReason}
	r.Binding = tool.Binding{
		Principal: r.Binding.Principal, OnBehalfOf: r.Binding.OnBehalfOf,
		Tool: r.Binding.Tool, ToolDefinitionDigest: r.Binding.ToolDefinitionDigest, Arguments: json.RawMessage("{}"),
	}
	return r
}

// Complete restores the prompt and the binding of r, which was decoded from its outline. text
// is the output of EncodePayload.
func (r *Record) Complete(text []byte) error {
	var p payload
	if err := json.Unmarshal(text, &p); err != nil {
		return unreadable("approval", err)
	}
	r.Prompt, r.Binding, r.Withheld = p.Prompt, p.Binding, nil
	return nil
}

// Withhold leaves r as an outline without its Request, and states the reason in the prompt's
// notes.
func (r *Record) Withhold(why error) {
	r.Withheld, r.Request = why, nil
	note := "The subject of this approval cannot be displayed."
	if known := (&reason.Error{}); errors.As(why, &known) {
		note = fmt.Sprintf("The subject of this approval cannot be displayed: %s: %s. %s", known.Code, known.Message, known.NextStep())
	}
	r.Prompt.Notes = []string{note}
}

// EncodeRecord returns the stored form of r: RFC 8785 JSON without the live fields and without
// Request, which a store keeps separately.
func EncodeRecord(r Record) ([]byte, error) { return canonical.Marshal(r.Stored()) }

// DecodeRecord reads the form of EncodeRecord.
func DecodeRecord(text, request []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, unreadable("approval", err)
	}
	if len(request) > 0 {
		r.Request = json.RawMessage(request)
	}
	return r, nil
}

// unreadable is the error for a row that cannot be decoded.
func unreadable(what string, err error) error {
	return reason.Errorf(reason.VerificationFailed, "reading a stored %s: %w", what, err).
		WithRemedy("The store is damaged. Keep the state directory, and restore a copy that passes verification.")
}

// EncodeGrant returns the stored form of g, RFC 8785 JSON.
func EncodeGrant(g Grant) ([]byte, error) { return canonical.Marshal(g) }

// DecodeGrant reads the form of EncodeGrant.
func DecodeGrant(text []byte) (Grant, error) {
	var g Grant
	if err := json.Unmarshal(text, &g); err != nil {
		return Grant{}, unreadable("grant", err)
	}
	return g, nil
}

// Stored returns r without its live fields.
func (r Record) Stored() Record {
	r.Waiters, r.RunGone = 0, false
	return r
}

// MarshalJSON encodes the answer for the journal and the tape.
func (a Answer) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind       Kind        `json:"kind"`
		ApprovalID string      `json:"approval_id,omitempty"`
		GrantID    string      `json:"grant_id,omitempty"`
		Version    int64       `json:"version,omitempty"`
		CallDigest string      `json:"call_digest,omitempty"`
		Voters     []string    `json:"voters,omitempty"`
		Reason     reason.Code `json:"reason,omitempty"`
		Message    string      `json:"message,omitempty"`
	}{a.kind, a.approvalID, a.grant.ID, a.version, a.callDigest, voters(a.votes), a.code, a.message})
}

func voters(votes []Vote) []string {
	names := make([]string, 0, len(votes))
	for _, v := range votes {
		names = append(names, v.User.String())
	}
	return names
}

// Version returns the version of the record or grant when it answered.
func (a Answer) Version() int64 { return a.version }
