package approval

import (
	"context"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// Edit is one change of a waiting call by a person who may answer it. The editor becomes a
// requester of the call.
type Edit struct {
	By      access.Principal `json:"by"`
	Device  string           `json:"device"`
	Surface access.Surface   `json:"surface"`
	At      time.Time        `json:"at"`
	Reason  string           `json:"reason"`
	// WasDigest and IsDigest are the call digests before and after.
	WasDigest string `json:"was_digest"`
	IsDigest  string `json:"is_digest"`
}

// Amendment is an edited version of a pending record's call.
type Amendment struct {
	// Version and ShownDigest identify the record as displayed to the editor.
	Version     int64
	ShownDigest string
	Reason      string
	// Ask is the edited call, planned and judged; its Edits are the earlier ones.
	Ask *Ask
	// Extra are the events that are journaled with the edit.
	Extra []event.Draft
}

// Edits replaces the calls of pending records by edited versions. It is safe for concurrent
// use.
type Edits struct {
	records *Records
	judge   Judge
	limits  Limits
}

// noEdit are the surfaces that display too little of a call to edit it.
var noEdit = []access.Surface{"slack", access.SurfaceWebhook, access.SurfaceInClient}

// MayEdit returns nil if the caller may edit the call of a record in the displayed version. The
// caller must be allowed to answer the record, the call must still wait, and the record must be
// unchanged. It blocks until the waiting call has received the record.
func (e *Edits) MayEdit(ctx context.Context, caller access.Caller, id string, version int64, digest string) (Record, error) {
	rec, err := e.records.Get(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if caller.Principal.Kind != access.KindUser {
		return rec, reason.Errorf(reason.PermissionDenied, "%s may not decide: only users decide approvals", caller.Principal)
	}
	// An earlier editor may edit the call again, but may not approve it.
	original := rec
	original.Edits = nil
	if err := e.judge.MayDecide(ctx, caller, original); err != nil {
		return rec, err
	}
	switch {
	case slices.Contains(noEdit, caller.Surface):
		return rec, reason.Errorf(reason.PermissionDenied, "calls cannot be edited from %s", caller.Surface).
			WithRemedy("Edit it in the console or with `palyra approvals edit %s`.", id)
	case rec.State != Pending, rec.Version != version:
		return rec, conflict(rec)
	case digest != rec.CallDigest:
		return rec, reason.Errorf(reason.DigestMismatch, "the displayed digest is %s, the waiting call has %s", text.Visible(digest), rec.CallDigest).
			WithField("call_digest", rec.CallDigest)
	case rec.Withheld != nil:
		return rec, rec.Withheld
	case rec.SubjectType != SubjectTool || rec.AboutCommit() || rec.AboutSession():
		return rec, reason.Errorf(reason.InvalidInput, "%s cannot be edited: it is not a call", rec.what())
	}
	return rec, e.awaitDelivery(ctx, rec)
}

// awaitDelivery blocks until the waiting call has received the record. The store makes the
// record visible to others slightly earlier, and an edit needs the call.
func (e *Edits) awaitDelivery(ctx context.Context, rec Record) error {
	open, ok := e.records.open.find(rec.ID, rec.CallDigest)
	if !ok {
		return nil
	}
	select {
	case <-open.delivered:
		return nil
	case <-ctx.Done():
		return reason.Errorf(reason.Cancelled, "waiting for the call of the approval: the request was cancelled: %w", ctx.Err())
	}
}

// edited reports whether a user is among the editors of r.
func (r Record) edited(user access.Principal) bool {
	return slices.ContainsFunc(r.Edits, func(e Edit) bool { return e.By == user })
}

// Editors returns the users who edited the call, without duplicates.
func (r Record) Editors() []access.Principal {
	var list []access.Principal
	for _, e := range r.Edits {
		if !slices.Contains(list, e.By) {
			list = append(list, e.By)
		}
	}
	return list
}

// Edit replaces the call of a pending record. The votes on the previous version are dropped. If
// the edit races with another change of the record, one of them fails. The call does not end
// when its editor logs out: the credential was checked at the edit, as for a vote. It ends when
// the editor's device is revoked, because the device may have been stolen before the edit.
func (e *Edits) Edit(ctx context.Context, caller access.Caller, id string, a Amendment) (Record, error) {
	rec, err := e.MayEdit(ctx, caller, id, a.Version, a.ShownDigest)
	if err != nil {
		return Record{}, err
	}
	if err := checkReason(a.Reason); err != nil {
		return Record{}, err
	}
	if err := a.Ask.check(e.limits); err != nil {
		return Record{}, err
	}
	if a.Ask.CallDigest == rec.CallDigest {
		return Record{}, reason.Errorf(reason.InvalidInput, "the edited call is identical to the waiting call").
			WithRemedy("Answer it unchanged, or change an argument.")
	}
	at := e.records.now()
	a.Ask.Edits = append(slices.Clone(rec.Edits), Edit{
		By: caller.Principal, Device: caller.DeviceID, Surface: caller.Surface, At: at, Reason: a.Reason,
		WasDigest: rec.CallDigest, IsDigest: a.Ask.CallDigest,
	})
	fresh, err := a.Ask.record(id, rec.CreatedAt)
	if err != nil {
		return Record{}, err
	}
	if err := describe(ctx, e.records.store, e.limits, &fresh); err != nil {
		return Record{}, err
	}
	e.records.open.anticipate(id, a.Ask)
	var after Record
	err = update(ctx, e.records.store, func(tx Tx) error {
		if err := thawedFor(tx, rec.SubjectType); err != nil {
			return err
		}
		after, err = transition(tx, step{
			id: id, from: Pending, version: a.Version, to: Pending, at: e.records.now(), actor: caller.Principal.String(), note: a.Reason,
			rewrite: true, change: func(r *Record) { amend(r, fresh) }, events: amendedEvents(rec.CallDigest),
		})
		if err == nil {
			tx.Emit(a.Extra...)
		}
		return err
	})
	if err != nil {
		return Record{}, err
	}
	e.records.settle(after)
	return e.records.live(after), nil
}

// amend replaces the call of r by the call of a fresh record. Requester, creation time and
// deadline stay.
func amend(r *Record, fresh Record) {
	fresh.ID, fresh.ProposalID, fresh.State, fresh.Version, fresh.Revision = r.ID, r.ProposalID, r.State, r.Version, r.Revision
	fresh.CreatedAt, fresh.ExpiresAt = r.CreatedAt, r.ExpiresAt
	*r = fresh
}

// AmendedPayload is the payload of event.Amended.
type AmendedPayload struct {
	ApprovalID string `json:"approval_id"`
	ProposalID string `json:"proposal_id"`
	Version    int64  `json:"version"`
	// WasDigest is the digest of the previous version, and CallDigest of the current one.
	WasDigest      string `json:"was_digest"`
	CallDigest     string `json:"call_digest"`
	SnapshotDigest string `json:"snapshot_digest"`
	Edit           Edit   `json:"edit"`
	Severity       string `json:"severity"`
	Summary        string `json:"summary"`
	Missing        string `json:"missing"`
}

func amendedEvents(was string) func(Record) ([]event.Draft, error) {
	return func(r Record) ([]event.Draft, error) {
		d, err := recordDraft(event.Amended, r, r.ChangedBy, AmendedPayload{
			ApprovalID: r.ID, ProposalID: r.ProposalID, Version: r.Version, WasDigest: was, CallDigest: r.CallDigest,
			SnapshotDigest: r.SnapshotDigest, Edit: r.Edits[len(r.Edits)-1], Severity: r.Severity, Summary: r.Prompt.Summary, Missing: r.Missing,
		})
		return []event.Draft{d}, err
	}
}

// noGrant returns the reason why the approval of an edited call cannot create a grant: the
// grant would not cover the call that its requester proposes.
func (r Record) noGrant() error {
	return reason.Errorf(reason.InvalidInput, "an approval of an edited call covers one call only").WithRemedy("Choose scope once.")
}

// anticipate adds the call of an edit that is about to be stored, so that settle finds it.
func (m *requestsInMemory) anticipate(id string, ask *Ask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byID[id]
	if !ok {
		return
	}
	if e.calls == nil {
		e.calls = make(map[string]editedCall)
	}
	e.calls[ask.CallDigest] = editedCall{slices.Clone(ask.Proposal.Input), ask.Resolved}
}
