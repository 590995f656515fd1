package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/mod/sumdb/tlog"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/surface/api/export"
)

// Evidence is the evidence that the gateway stores outside the events.
type Evidence interface {
	// Snapshot returns the content behind a policy snapshot digest.
	Snapshot(ctx context.Context, digest string) ([]byte, error)
	// Attestation finds an attestation by its own id or by the id of its proposal.
	Attestation(ctx context.Context, id string) (attest.Listed, error)
	// Attestations returns one page, newest first.
	Attestations(ctx context.Context, size int, token string) (list []attest.Listed, next string, err error)
	// KeySet returns the keys that an offline verifier needs, as JSON.
	KeySet() (json.RawMessage, error)
}

const defaultEvents = 100

// fullPage bounds the payload bytes in a page of more than one event: clients refuse messages above
// MaxMessage.
const fullPage = MaxMessage / 2

type journalService struct {
	log      *journal.Log
	evidence Evidence
}

// ListEvents returns one page, oldest first unless the newest are requested.
func (j *journalService) ListEvents(ctx context.Context, req *palyrav1.ListEventsRequest) (*palyrav1.ListEventsResponse, error) {
	f := filterOf(req.GetFilter())
	f.After, f.Limit, f.Newest = req.GetAfter(), int(req.GetPageSize()), req.GetNewestFirst()
	if before := req.GetBefore(); before == 1 {
		return &palyrav1.ListEventsResponse{}, nil // no event precedes the first
	} else if before > 0 {
		f.UpTo = before - 1
	}
	if f.Limit == 0 {
		f.Limit = defaultEvents
	}
	page, err := j.log.List(ctx, f)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListEventsResponse{}
	size := 0
	for i, e := range page {
		if size += len(e.Payload); size > fullPage && i > 0 {
			break
		}
		res.Events = append(res.Events, eventMessage(e))
	}
	n := len(res.Events)
	if n < f.Limit && n == len(page) {
		return res, nil
	}
	// No event precedes the first one.
	if last := page[n-1].Seq; !f.Newest {
		res.NextAfter = last
	} else if last > 1 {
		res.NextBefore = last
	}
	return res, nil
}

func filterOf(f *palyrav1.EventFilter) journal.Filter {
	return journal.Filter{
		Code: f.GetCode(), Session: f.GetSession(), Run: f.GetRun(), Subject: f.GetSubject(), Actor: f.GetActor(),
		Since: timeOf(f.GetSince()), Until: timeOf(f.GetUntil()),
	}
}

// TailEvents streams events as they become durable.
func (j *journalService) TailEvents(ctx context.Context, req *palyrav1.TailEventsRequest, stream *connect.ServerStream[palyrav1.TailEventsResponse]) error {
	after := req.GetAfter()
	if after < 0 {
		after = j.log.Head().Seq
	}
	wanted := filterOf(req.GetFilter())
	return j.log.Follow(ctx, after, func(e journal.Event) error {
		if !selects(wanted, e) {
			return nil
		}
		return stream.Send(&palyrav1.TailEventsResponse{Event: eventMessage(e)})
	})
}

// selects applies a filter to an event that was not read through it.
func selects(f journal.Filter, e journal.Event) bool {
	return strings.HasPrefix(string(e.Code), f.Code) &&
		(f.Session == "" || f.Session == e.Session) && (f.Run == "" || f.Run == e.Run) &&
		(f.Subject == "" || f.Subject == e.Subject) && (f.Actor == "" || f.Actor == e.Actor) &&
		(f.Since.IsZero() || !e.At.Before(f.Since)) && (f.Until.IsZero() || e.At.Before(f.Until))
}

// GetEvent returns one event.
func (j *journalService) GetEvent(ctx context.Context, req *palyrav1.GetEventRequest) (*palyrav1.GetEventResponse, error) {
	e, err := j.log.Get(ctx, req.GetSeq())
	if err != nil {
		return nil, err
	}
	return &palyrav1.GetEventResponse{Event: eventMessage(e)}, nil
}

// GetCheckpoint returns the last checkpoint, or signs a fresh one.
func (j *journalService) GetCheckpoint(ctx context.Context, req *palyrav1.GetCheckpointRequest) (*palyrav1.GetCheckpointResponse, error) {
	get := j.log.Checkpoints.Latest
	if req.GetFresh() {
		get = j.log.Checkpoints.Write
	}
	cp, err := get(ctx)
	if err != nil {
		return nil, err
	}
	if cp.Size == 0 {
		return nil, reason.Errorf(reason.NotFound, "the journal has no checkpoint yet").WithRemedy("Request a fresh one.")
	}
	key, err := signerOf(cp, j.log.Checkpoints.Keys())
	if err != nil {
		return nil, err
	}
	return &palyrav1.GetCheckpointResponse{Note: cp.Note, TreeSize: cp.Size, VerifierKey: key}, nil
}

// signerOf returns the key that signed the checkpoint: after a key change, the newest checkpoint
// may be signed by an older key.
func signerOf(cp journal.Checkpoint, keys []string) (string, error) {
	for _, key := range keys {
		known, err := journal.ParseKeys(key)
		if err != nil {
			return "", fmt.Errorf("reading the journal's keys: %w", err)
		}
		if _, err := journal.ParseCheckpoint(cp.Note, cp.Origin, known); err == nil {
			return key, nil
		}
	}
	return "", fmt.Errorf("the checkpoint over %d events is not signed by a key of the journal", cp.Size)
}

// ProveEvent returns an inclusion proof of an event, and optionally a consistency proof against an
// older tree.
func (j *journalService) ProveEvent(ctx context.Context, req *palyrav1.ProveEventRequest) (*palyrav1.ProveEventResponse, error) {
	p, err := j.log.Prove(ctx, req.GetSeq())
	if err != nil {
		return nil, err
	}
	key, err := signerOf(p.Checkpoint, j.log.Checkpoints.Keys())
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ProveEventResponse{
		Event: eventMessage(p.Event), Checkpoint: p.Checkpoint.Note, VerifierKey: key,
	}
	res.Inclusion = hexHashes(p.Hashes)
	if req.GetOldTreeSize() == 0 {
		return res, nil
	}
	c, err := j.log.Consistency(ctx, req.GetOldTreeSize(), p.Checkpoint.Size)
	if err != nil {
		return nil, err
	}
	res.Consistency = hexHashes(c.Hashes)
	return res, nil
}

func hexHashes(hashes []tlog.Hash) (texts []string) {
	for _, h := range hashes {
		texts = append(texts, hex.EncodeToString(h[:]))
	}
	return texts
}

// ExportJournal streams the export.
func (j *journalService) ExportJournal(ctx context.Context, req *palyrav1.ExportJournalRequest, stream *connect.ServerStream[palyrav1.ExportJournalResponse]) error {
	keys, err := j.evidence.KeySet()
	if err != nil {
		return err
	}
	out := export.Journal(parts(func(data []byte) error {
		return stream.Send(&palyrav1.ExportJournalResponse{Data: data})
	}), exportForm(req.GetFormat()))
	if err := j.log.Export(ctx, out, req.GetAfter(), keys); err != nil {
		return err
	}
	return out.Close()
}

func eventMessage(e journal.Event) *palyrav1.Event {
	return &palyrav1.Event{
		Seq: e.Seq, EventId: e.ID, At: timeMessage(e.At), Code: string(e.Code), Session: e.Session, Run: e.Run,
		Actor: e.Actor, Subject: e.Subject, PayloadJson: e.Payload, Salt: e.Salt,
		PayloadSha256: hex.EncodeToString(e.PayloadSHA256[:]), PrevHash: hex.EncodeToString(e.PrevHash[:]),
		Hash: hex.EncodeToString(e.Hash[:]),
	}
}

type attestations struct {
	evidence Evidence
	engine   *policy.Engine
}

// GetAttestation returns one envelope. An envelope with file digests requires permission to read
// the journal, which contains them too: a digest can confirm a guess of the content.
func (a *attestations) GetAttestation(ctx context.Context, req *palyrav1.GetAttestationRequest) (*palyrav1.GetAttestationResponse, error) {
	found, err := a.evidence.Attestation(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if of := (attest.Envelope{JSON: found.Envelope}); of.NamesFiles() && !may(a.engine, callerOf(ctx), access.PermJournalRead) {
		return nil, reason.Errorf(reason.PermissionDenied, "attestation %s contains digests of files and of the call, which require journal.read", found.ID).
			WithRemedy("Ask a user with journal.read, such as an auditor, to read it.")
	}
	return &palyrav1.GetAttestationResponse{
		AttestationId: found.ID, ProposalId: found.ProposalID, EnvelopeJson: found.Envelope, JournalSeq: found.Seq,
	}, nil
}

// ListAttestations returns one page, newest first.
func (a *attestations) ListAttestations(ctx context.Context, req *palyrav1.ListAttestationsRequest) (*palyrav1.ListAttestationsResponse, error) {
	list, next, err := a.evidence.Attestations(ctx, int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListAttestationsResponse{NextPageToken: next}
	digests := may(a.engine, callerOf(ctx), access.PermJournalRead)
	for _, at := range list {
		m := &palyrav1.AttestationSummary{
			AttestationId: at.ID, ProposalId: at.ProposalID, JournalSeq: at.Seq, At: timeMessage(at.At), Tool: at.Tool, Outcome: at.Outcome,
		}
		if digests {
			m.CallDigest = at.CallDigest
		}
		res.Attestations = append(res.Attestations, m)
	}
	return res, nil
}

// GetKeySet returns the keys that an offline verifier needs.
func (a *attestations) GetKeySet(context.Context, *palyrav1.GetKeySetRequest) (*palyrav1.GetKeySetResponse, error) {
	keys, err := a.evidence.KeySet()
	if err != nil {
		return nil, err
	}
	return &palyrav1.GetKeySetResponse{KeySetJson: keys}, nil
}
