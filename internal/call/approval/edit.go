package approval

import (
	"context"
	"fmt"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// Edit is one change of the call that is asked about, by somebody who may answer. Who
// makes one asks for the call from then on, as its requester does.
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

// Amendment is a pending record's call as somebody changed it.
type Amendment struct {
	// Version and ShownDigest are of the record that the editor was shown.
	Version     int64
	ShownDigest string
	Reason      string
	// Ask is the changed call, planned and judged; its Edits are those of before.
	Ask *Ask
	// Extra are journaled with it.
	Extra []event.Draft
}

// noEdit are the surfaces that show too little of a call to change it.
var noEdit = []access.Surface{"slack", access.SurfaceWebhook, access.SurfaceInClient}

// MayEdit returns nil when the caller may change the call of a record that it was
// shown: it may answer it, the call still waits, and nothing has changed since. It blocks
// until the waiting call has received the record.
func (d *Desk) MayEdit(ctx context.Context, caller access.Caller, id string, version int64, shown string) (Record, error) {
	rec, err := d.Get(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if caller.Principal.Kind != access.KindUser {
		return rec, reason.Errorf(reason.PermissionDenied, "%s may not decide: only users decide approvals", caller.Principal)
	}
	// Who changed the call before may change it again, and not say yes to it.
	asked := rec
	asked.Edits = nil
	if err := d.judge.MayDecide(ctx, caller, asked); err != nil {
		return rec, err
	}
	switch {
	case slices.Contains(noEdit, caller.Surface):
		return rec, reason.Errorf(reason.PermissionDenied, "a call is not changed from %s", caller.Surface).
			WithRemedy("Change it in the console or with `palyra approvals edit %s`.", id)
	case rec.State != Pending, rec.Version != version:
		return rec, conflict(rec)
	case shown != rec.CallDigest:
		return rec, reason.Errorf(reason.DigestMismatch, "the digest shown is %s, the call that waits has %s", text.Visible(shown), rec.CallDigest).
			WithField("call_digest", rec.CallDigest)
	case rec.Withheld != nil:
		return rec, rec.Withheld
	case rec.SubjectType != SubjectTool || rec.AboutCommit() || rec.AboutSession():
		return rec, reason.Errorf(reason.InvalidInput, "%s cannot be edited: it is no call", rec.what())
	}
	return rec, d.awaitDelivery(ctx, id)
}

// awaitDelivery blocks until the waiting call has received the record. The store makes the
// record visible to others slightly earlier, and an edit needs the call.
func (d *Desk) awaitDelivery(ctx context.Context, id string) error {
	d.mu.Lock()
	e := d.open[id]
	d.mu.Unlock()
	if e == nil {
		return nil
	}
	select {
	case <-e.delivered:
		return nil
	case <-ctx.Done():
		return reason.Errorf(reason.Cancelled, "waiting for the call of the approval: the request was cancelled: %w", ctx.Err())
	}
}

// edited reports whether a user is among the editors of r.
func (r Record) edited(user access.Principal) bool {
	return slices.ContainsFunc(r.Edits, func(e Edit) bool { return e.By == user })
}

// Editors are the users who changed the call, each once.
func (r Record) Editors() []access.Principal {
	var list []access.Principal
	for _, e := range r.Edits {
		if !slices.Contains(list, e.By) {
			list = append(list, e.By)
		}
	}
	return list
}

// Edit puts a changed call in the place of a pending record's. The votes on the call of
// before fall. Of an edit and whatever else happens to the record, one wins.
func (d *Desk) Edit(ctx context.Context, caller access.Caller, id string, a Amendment) (Record, error) {
	rec, err := d.MayEdit(ctx, caller, id, a.Version, a.ShownDigest)
	if err != nil {
		return Record{}, err
	}
	if err := checkReason(a.Reason); err != nil {
		return Record{}, err
	}
	if err := a.Ask.check(d.limits); err != nil {
		return Record{}, err
	}
	if a.Ask.CallDigest == rec.CallDigest {
		return Record{}, reason.Errorf(reason.InvalidInput, "the edited call is the call that waits: nothing is changed").
			WithRemedy("Answer it as it is, or change an argument.")
	}
	at := d.now()
	a.Ask.Edits = append(slices.Clone(rec.Edits), Edit{
		By: caller.Principal, Device: caller.DeviceID, Surface: caller.Surface, At: at, Reason: a.Reason,
		WasDigest: rec.CallDigest, IsDigest: a.Ask.CallDigest,
	})
	fresh, err := a.Ask.record(id, rec.CreatedAt)
	if err != nil {
		return Record{}, err
	}
	if err := d.describe(ctx, &fresh); err != nil {
		return Record{}, err
	}
	d.announce(id, a.Ask)
	var after Record
	err = d.update(ctx, func(tx Tx) error {
		if err := thawedFor(tx, rec.SubjectType); err != nil {
			return err
		}
		after, err = transition(tx, step{
			id: id, from: Pending, version: a.Version, to: Pending, at: d.now(), actor: caller.Principal.String(), note: a.Reason,
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
	d.settle(after)
	return d.live(after), nil
}

// amend gives r the call of a fresh record. Who asked, since when and until when stays.
func amend(r *Record, fresh Record) {
	fresh.ID, fresh.ProposalID, fresh.State, fresh.Version, fresh.Revision = r.ID, r.ProposalID, r.State, r.Version, r.Revision
	fresh.CreatedAt, fresh.ExpiresAt = r.CreatedAt, r.ExpiresAt
	*r = fresh
}

// announce lets the entry of a record know the call that an edit will put into it, so
// that whoever settles the record has it.
func (d *Desk) announce(id string, ask *Ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.open[id]
	if !ok {
		return
	}
	if e.calls == nil {
		e.calls = make(map[string]editedCall)
	}
	e.calls[ask.CallDigest] = editedCall{slices.Clone(ask.Proposal.Input), ask.Resolved}
}

// rekeyLocked makes the entry of an edited record one of the call that it now asks
// about: calls that are identical to the one before ask for themselves.
func (d *Desk) rekeyLocked(e *entry, rec Record) {
	d.unkeyLocked(e)
	e.key = keyOfRecord(rec)
	d.byCall[e.key] = append(d.byCall[e.key], e)
	e.before, e.resolved = append(e.before, e.resolved), e.calls[rec.CallDigest].resolved
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

// AmendedPayload is of event.Amended.
type AmendedPayload struct {
	ApprovalID string `json:"approval_id"`
	ProposalID string `json:"proposal_id"`
	Version    int64  `json:"version"`
	// WasDigest is of the call that was asked about before, CallDigest of the one that
	// is now.
	WasDigest      string `json:"was_digest"`
	CallDigest     string `json:"call_digest"`
	SnapshotDigest string `json:"snapshot_digest"`
	Edit           Edit   `json:"edit"`
	Severity       string `json:"severity"`
	Summary        string `json:"summary"`
	Missing        string `json:"missing"`
}

// Amended is what an answer says of a call that people changed: the arguments that they
// said yes to, and who changed it. It is nil for a call as it was proposed.
type Amended struct {
	Input []byte
	Edits []Edit
}

// Amended returns how the call was changed, nil when it was not.
func (a Answer) Amended() *Amended { return a.amended }

// By are the users who changed the call, each once.
func (a *Amended) By() []string {
	var names []string
	for _, e := range a.Edits {
		if name := e.By.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// noGrant is why a yes to an edited call does not stand: what would be covered is not
// what its requester asks for.
func (r Record) noGrant() error {
	return reason.Errorf(reason.InvalidInput, "a yes to a call that was edited is for once").WithRemedy("Choose scope once.")
}

// editedNote says in the prompt who changed the call.
func editedNote(edits []Edit) string {
	last := edits[len(edits)-1]
	text := fmt.Sprintf("%s changed this call; it is not what was proposed. The votes before do not count.", last.By)
	if last.Reason != "" {
		text += " They say: " + last.Reason
	}
	return text
}

// EditOf is what the result of an edited call says of that.
func (a *Amended) EditOf(approvalID string, changes []tool.Difference) *tool.Edited {
	return &tool.Edited{
		ApprovalID: approvalID, By: a.By(), Reason: tool.RedactText(a.Edits[len(a.Edits)-1].Reason),
		Proposed: a.Edits[0].WasDigest, Changes: changes,
	}
}
