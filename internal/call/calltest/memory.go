// Package calltest provides an in-memory ledger and the conformance suite of ledgers.
package calltest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"palyra/internal/call"
	callrecord "palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/evidence/journal/journaltest"
)

// Memory is an in-memory Ledger. Its entries are serialized, and a failed entry stores no data.
type Memory struct {
	journal  journaltest.Memory
	claims   map[[2]string]call.Claim
	attested []attest.Stored
	sessions []session.Past
	members  []session.Member
	open     []call.OpenCall
}

var (
	_ call.Ledger  = (*Memory)(nil)
	_ attest.Store = (*Memory)(nil)
)

// NewMemory returns an empty ledger.
func NewMemory() *Memory {
	return &Memory{claims: make(map[[2]string]call.Claim)}
}

// Record makes an entry durable.
func (m *Memory) Record(_ context.Context, e call.Entry) (int64, error) {
	m.journal.Lock()
	defer m.journal.Unlock()
	if c := e.Claim; c != nil {
		held, taken := m.claims[[2]string{c.Principal.String(), c.Key}]
		if taken && live(held) && (held.ProposalID != c.Replaces || held.Digest != c.Digest) {
			return 0, reason.Errorf(reason.IdempotencyMismatch, "idempotency key %q was claimed by another call", c.Key)
		}
	}
	if a := e.Attestation; a != nil && slices.ContainsFunc(m.attested, func(s attest.Stored) bool { return s.ProposalID == a.ProposalID || s.ID == a.Envelope.ID }) {
		return 0, reason.Errorf(reason.AlreadyExists, "an attestation of proposal %s already exists", a.ProposalID)
	}
	for _, b := range e.Blobs {
		if len(b) > call.MaxBlob {
			return 0, reason.Errorf(reason.InputTooLarge, "a blob of %d bytes", len(b))
		}
	}
	if _, err := m.journal.Write(e.Drafts, e.Blobs); err != nil {
		return 0, err
	}
	m.note(e)
	return m.journal.Last().Seq, nil
}

// note stores the rows of a written entry.
func (m *Memory) note(e call.Entry) {
	if c := e.Claim; c != nil {
		m.claims[[2]string{c.Principal.String(), c.Key}] = *c
	}
	if a := e.Attestation; a != nil {
		last := m.journal.Last()
		m.attested = append(m.attested, attest.Stored{
			ID: a.Envelope.ID, ProposalID: a.ProposalID, CallDigest: a.CallDigest, Envelope: a.Envelope.JSON, SHA256: a.Envelope.SHA256,
			CreatedAt: last.At, Seq: last.Seq, Position: int64(len(m.attested) + 1),
		})
	}
	if e.Member != nil {
		if r := e.Member.New; r != nil && !slices.ContainsFunc(m.sessions, func(p session.Past) bool { return p.ID == r.ID }) {
			m.sessions = append(m.sessions, session.Past{Row: *r})
		}
		m.members = append(m.members, *e.Member)
	}
	for _, d := range e.Drafts {
		written := journal.Event{Code: d.Code, Payload: d.Payload}
		m.open = slices.DeleteFunc(m.open, func(o call.OpenCall) bool { return o.ProposalID == d.Subject && callrecord.Ends(&written) })
		if callrecord.Opens(&written) && !callrecord.AtOnce(e.Drafts, d.Subject) {
			m.open = append(m.open, call.OpenCall{ProposalID: d.Subject, Session: d.Session, Run: d.Run, Actor: d.Actor})
		}
	}
	slices.SortFunc(m.open, func(a, b call.OpenCall) int { return strings.Compare(a.ProposalID, b.ProposalID) })
}

func live(c call.Claim) bool { return time.Since(c.At) <= call.ClaimLife }

// Claimed returns the claim of a key that has not expired.
func (m *Memory) Claimed(_ context.Context, p access.Principal, key string) (call.Claim, bool, error) {
	m.journal.Lock()
	defer m.journal.Unlock()
	c, found := m.claims[[2]string{p.String(), key}]
	if !found || !live(c) {
		return call.Claim{}, false, nil
	}
	return c, true, nil
}

// Ready implements call.Ledger: memory is never locked.
func (m *Memory) Ready(context.Context) error { return nil }

// Events returns a page of the events that match the filter.
func (m *Memory) Events(ctx context.Context, f journal.Filter) ([]journal.Event, error) {
	return m.journal.Events(ctx, f)
}

// Blob returns the blob of a digest.
func (m *Memory) Blob(ctx context.Context, digest string) ([]byte, error) {
	return m.journal.Blob(ctx, digest)
}

// Head returns the newest event.
func (m *Memory) Head() (size int64, hash [32]byte) {
	m.journal.Lock()
	defer m.journal.Unlock()
	return m.journal.Last().Seq, m.journal.Last().Hash
}

// Attestation returns the attestation with an id.
func (m *Memory) Attestation(_ context.Context, id string) (attest.Stored, error) {
	return m.attestation(func(a attest.Stored) bool { return a.ID == id })
}

// AttestationByProposal returns the attestation of a call.
func (m *Memory) AttestationByProposal(_ context.Context, proposalID string) (attest.Stored, error) {
	return m.attestation(func(a attest.Stored) bool { return a.ProposalID == proposalID })
}

func (m *Memory) attestation(is func(attest.Stored) bool) (attest.Stored, error) {
	m.journal.Lock()
	defer m.journal.Unlock()
	if i := slices.IndexFunc(m.attested, is); i >= 0 {
		return m.attested[i], nil
	}
	return attest.Stored{}, reason.Errorf(reason.NotFound, "attestation not found")
}

// Attestations lists attestations, newest first.
func (m *Memory) Attestations(_ context.Context, before int64, limit int) ([]attest.Stored, error) {
	m.journal.Lock()
	defer m.journal.Unlock()
	list := slices.DeleteFunc(slices.Clone(m.attested), func(a attest.Stored) bool { return before != 0 && a.Position >= before })
	slices.Reverse(list)
	return list[:min(len(list), cmp.Or(limit, len(list)))], nil
}

// OpenCalls lists the calls that were decided and have not ended.
func (m *Memory) OpenCalls(context.Context) ([]call.OpenCall, error) {
	m.journal.Lock()
	defer m.journal.Unlock()
	return slices.Clone(m.open), nil
}

// NewestSession returns the newest session of a key.
func (m *Memory) NewestSession(_ context.Context, k session.Key, each call.EachEvent) (session.Past, bool, error) {
	return m.session(func(p session.Past) bool { return p.Key == k }, each)
}

// Session returns a session by its id.
func (m *Memory) Session(_ context.Context, id string, each call.EachEvent) (session.Past, bool, error) {
	return m.session(func(p session.Past) bool { return p.ID == id }, each)
}

func (m *Memory) session(is func(session.Past) bool, each call.EachEvent) (newest session.Past, found bool, err error) {
	m.journal.Lock()
	for _, p := range m.sessions {
		if is(p) && (!found || p.ID > newest.ID) {
			newest, found = p, true
		}
	}
	ofRun := map[string]bool{newest.ID: false}
	for _, call := range m.members {
		if call.Session == newest.ID {
			ofRun[call.Proposal] = call.OfRun
		}
	}
	m.journal.Unlock()
	if !found {
		return session.Past{}, false, nil
	}
	for _, e := range m.journal.All() {
		if run, of := ofRun[e.Subject]; of && err == nil {
			err = each(&e, run)
		}
	}
	return newest, true, err
}

// Sessions lists sessions, newest first.
func (m *Memory) Sessions(_ context.Context, f session.Filter) (page []session.Past, next string, err error) {
	m.journal.Lock()
	defer m.journal.Unlock()
	for _, p := range m.sessions {
		if !of(p, f.Principal) || !of(p, f.Of) || f.Open && !p.EndedAt.IsZero() || f.PageToken != "" && p.ID >= f.PageToken {
			continue
		}
		p.LastAt = p.StartedAt
		for _, call := range m.members {
			switch {
			case call.Session != p.ID:
			case call.OfRun:
				p.RunCalls++
			default:
				p.Facts.CallsInRun++
			}
		}
		page = append(page, p)
	}
	slices.SortFunc(page, func(a, b session.Past) int { return strings.Compare(b.ID, a.ID) })
	if size := cmp.Or(f.PageSize, 50); len(page) > size {
		page, next = page[:size], page[size-1].ID
	}
	return page, next, nil
}

// Calls lists the ids of calls, newest first.
func (m *Memory) Calls(_ context.Context, f call.Filter) (ids []string, next string, err error) {
	ofRun := map[string]bool{}
	for _, e := range m.journal.All() {
		ofRun[e.Subject] = ofRun[e.Subject] || e.Run == f.Run && e.Code == event.Proposed
	}
	m.journal.Lock()
	defer m.journal.Unlock()
	for _, call := range m.members {
		if f.Run != "" && !ofRun[call.Proposal] {
			continue
		}
		i := slices.IndexFunc(m.sessions, func(p session.Past) bool { return p.ID == call.Session })
		if i < 0 || !of(m.sessions[i], f.Principal) || !of(m.sessions[i], f.Of) || f.PageToken != "" && call.Proposal >= f.PageToken {
			continue
		}
		ids = append(ids, call.Proposal)
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	if len(ids) > f.PageSize {
		ids, next = ids[:f.PageSize], ids[f.PageSize-1]
	}
	return ids, next, nil
}

// of reports whether a session belongs to a principal: a user acts on behalf of itself.
func of(p session.Past, who access.Principal) bool {
	return who.IsZero() || who == p.OnBehalfOf && who.Kind == access.KindUser || who == p.Principal
}

// RunCalls counts the proposals of a run.
func (m *Memory) RunCalls(_ context.Context, p access.Principal, run string) (int, error) {
	calls := make(map[string]bool)
	for _, e := range m.journal.All() {
		if run != "" && e.Run == run && e.Actor == p.String() && (e.Code == event.Proposed || e.Code == event.Refused) {
			calls[e.Subject] = true
		}
	}
	return len(calls), nil
}

// EndSession ends a session, unless it has ended.
func (m *Memory) EndSession(_ context.Context, e session.Ending, d event.Draft) error {
	m.journal.Lock()
	defer m.journal.Unlock()
	i := slices.IndexFunc(m.sessions, func(p session.Past) bool { return p.ID == e.ID && p.EndedAt.IsZero() })
	if i < 0 {
		return reason.Errorf(reason.AlreadyExists, "session %s has been ended already", e.ID)
	}
	at, err := m.journal.Write([]event.Draft{d}, nil)
	if err == nil {
		m.sessions[i].EndedAt, m.sessions[i].EndedBy, m.sessions[i].EndReason = at, e.By, e.Reason
	}
	return err
}
