package clitest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca/catest"
	"palyra/internal/store/sqlite"
)

// Journal is a real journal with real attestations, on its own store.
type Journal struct {
	Log       *journal.Log
	Notary    *attest.Notary
	Envelopes map[string]attest.Envelope
	// checkpoints are the certified keys of the log; without them the key set is
	// of version 1.
	checkpoints []attest.CheckpointKey
	ca          *catest.Authority
}

func (j *Journal) keySet() ([]byte, error) {
	set := j.Notary.KeySet()
	if len(j.checkpoints) > 0 {
		set = set.WithCheckpointKeys(j.checkpoints)
	}
	return set.JSON()
}

// certified returns a checkpoint key with a certificate of the CA.
func certified(t *testing.T, ca *catest.Authority, key *journal.Key, signer ed25519.PrivateKey) attest.CheckpointKey {
	t.Helper()
	cert := ca.Sign(t, &x509.Certificate{
		URIs:      []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/journal/one"}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}, signer.Public())
	return attest.CheckpointKey{
		Verifier: key.Verifier(), CertifiedAt: time.Now().UTC().Truncate(time.Microsecond),
		CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})),
	}
}

// Rotate replaces the checkpoint key.
func (j *Journal) Rotate(t *testing.T) journal.Rotation {
	t.Helper()
	signer := NewSigner(t)
	key := must.Get(journal.NewKey(gatewayID, signer))(t)
	next := certified(t, j.ca, key, signer)
	r := must.Get(j.Log.Checkpoints.Rotate(context.Background(), key, next.CertificateChain, next.CertifiedAt))(t)
	next.FirstSize, j.checkpoints[0].LastSize = r.Last+1, r.Last
	j.checkpoints = append([]attest.CheckpointKey{next}, j.checkpoints...)
	return r
}

const gatewayID = "gw-test"

// NewJournal returns a journal signed by a key of the CA.
func NewJournal(t *testing.T, ca *catest.Authority, signer ed25519.PrivateKey) *Journal {
	t.Helper()
	db := must.Get(sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "palyra.db"), sqlite.Options{}))(t)
	t.Cleanup(func() { must.Check(t, db.Close(context.Background())) })
	key := must.Get(journal.NewKey(gatewayID, signer))(t)
	log := must.Get(journal.New(db, journal.Options{Key: key}))(t)
	return &Journal{
		Log: log, Notary: NewNotary(t, ca), Envelopes: map[string]attest.Envelope{}, ca: ca,
		checkpoints: []attest.CheckpointKey{certified(t, ca, key, signer)},
	}
}

// NewNotary returns a notary with a key of the CA.
func NewNotary(t *testing.T, ca *catest.Authority) *attest.Notary {
	t.Helper()
	key, chain := ca.Signer(t, "test", "/notary/one")
	return must.Get(attest.NewNotary(attest.NotaryConfig{Signer: key, Chain: chain, Gateway: "test"}))(t)
}

// NewSigner returns a key for checkpoints.
func NewSigner(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	return private
}

// Events appends n events that are not attestations.
func (j *Journal) Events(t *testing.T, n int) {
	t.Helper()
	for range n {
		must.Get(j.Log.Append(context.Background(), event.Draft{Code: event.Proposed, Actor: "user:ada", Subject: ulid.Make().String(), Payload: json.RawMessage(`{}`)}))(t)
	}
}

// Attested appends an attestation of a call and returns its id.
func (j *Journal) Attested(t *testing.T, result string) string {
	t.Helper()
	return j.AttestedWith(t, result, tool.Egress{Mode: "strict"})
}

// AttestedWith is Attested for a call with network access.
func (j *Journal) AttestedWith(t *testing.T, result string, egress tool.Egress) string {
	t.Helper()
	digest := canonical.Digest([]byte("x"))
	now := time.Now()
	x := attest.Execution{
		AttestationID: ulid.Make().String(), ProposalID: ulid.Make().String(), DecisionID: ulid.Make().String(),
		Session: "default", Run: "r1", Principal: "agent:claude", OnBehalfOf: "user:ada", Tool: "echo",
		ToolDefinitionDigest: digest, CallDigest: digest, ArgumentsDigest: digest, PolicyVersion: digest, SnapshotDigest: digest,
		ProposedAt: now, DecidedAt: now,
		Report: tool.Report{
			Outcome: tool.Succeeded, Result: json.RawMessage(result), StartedAt: now, FinishedAt: now,
			Executor:    tool.ExecutorInfo{Name: tool.Builtin, Version: "1", Tier: "builtin"},
			Enforcement: tool.Enforcement{Level: "none"}, Egress: egress,
		},
	}
	envelope := must.Get(j.Notary.Sign(context.Background(), x))(t)
	j.Envelopes[envelope.ID] = envelope
	j.decided(t, x)
	j.journalReport(t, x, envelope.ID, x.ProposalID, envelope.JSON)
	return envelope.ID
}

// JournalEnvelope records an envelope as an attestation of a call.
func (j *Journal) JournalEnvelope(t *testing.T, id, proposal string, envelope []byte) {
	t.Helper()
	j.journalReport(t, attest.Execution{}, id, proposal, envelope)
}

func (j *Journal) journalReport(t *testing.T, x attest.Execution, id, proposal string, envelope []byte) {
	t.Helper()
	j.Append(t, event.Attested, x, proposal, map[string]any{
		"attestation_id": id, "proposal_id": proposal, "decision_id": x.DecisionID, "tool": x.Tool, "report": x.Report,
		"result_blob": canonical.Digest(x.Report.Result), "envelope": json.RawMessage(envelope),
	})
}

// decided appends the events that precede the attestation of a call.
func (j *Journal) decided(t *testing.T, x attest.Execution) {
	t.Helper()
	j.Append(t, event.Proposed, x, x.ProposalID, map[string]any{
		"proposal_id": x.ProposalID, "principal": x.Principal, "on_behalf_of": x.OnBehalfOf, "tool": x.Tool,
		"tool_definition_digest": x.ToolDefinitionDigest, "arguments_digest": x.ArgumentsDigest, "journal": x.Journal,
	})
	j.Append(t, event.Evaluated, x, x.ProposalID, map[string]any{
		"proposal_id": x.ProposalID, "call_digest": x.CallDigest,
		"verdict": map[string]any{"snapshot_digest": x.SnapshotDigest, "policy_version": x.PolicyVersion},
	})
	j.Append(t, event.Decided, x, x.ProposalID, map[string]any{
		"proposal_id": x.ProposalID, "decision_id": x.DecisionID, "allowed": true, "call_digest": x.CallDigest, "at": x.DecidedAt.UTC().Round(0),
		"snapshot_digest": x.SnapshotDigest, "policy_version": x.PolicyVersion, "determining": []any{},
	})
}

// Append records an event of a call.
func (j *Journal) Append(t *testing.T, code event.Code, x attest.Execution, subject string, payload any) {
	t.Helper()
	text := must.Get(canonical.Marshal(payload))(t)
	d := event.Draft{Code: code, Actor: "agent:claude", Session: x.Session, Run: x.Run, Subject: subject, Payload: text}
	must.Get(j.Log.Append(context.Background(), d))(t)
}

func serveJournal(f *Gateway) {
	serve(f, func(ctx context.Context, req *palyrav1.ListEventsRequest) (*palyrav1.ListEventsResponse, error) {
		size := int(req.GetPageSize())
		if size == 0 || size > 2 {
			size = 2 // small pages, to test paging
		}
		page, err := f.Journal.Log.List(ctx, journal.Filter{Code: req.GetFilter().GetCode(), After: req.GetAfter(), Limit: size})
		out := &palyrav1.ListEventsResponse{}
		for _, e := range page {
			out.Events = append(out.Events, wireEvent(e))
		}
		if len(page) == size {
			out.NextAfter = page[len(page)-1].Seq
		}
		return out, err
	})
	stream(f, func(ctx context.Context, req *palyrav1.TailEventsRequest, send func(*palyrav1.TailEventsResponse) error) error {
		return f.Journal.Log.Follow(ctx, req.GetAfter(), func(e journal.Event) error {
			return send(&palyrav1.TailEventsResponse{Event: wireEvent(e)})
		})
	})
	serve(f, func(ctx context.Context, req *palyrav1.GetEventRequest) (*palyrav1.GetEventResponse, error) {
		e, err := f.Journal.Log.Get(ctx, req.GetSeq())
		if err != nil {
			return nil, notFound("%w", err)
		}
		return &palyrav1.GetEventResponse{Event: wireEvent(e)}, nil
	})
	serve(f, func(ctx context.Context, _ *palyrav1.GetCheckpointRequest) (*palyrav1.GetCheckpointResponse, error) {
		cp, err := f.Journal.Log.Checkpoints.Write(ctx)
		return &palyrav1.GetCheckpointResponse{Note: cp.Note, TreeSize: cp.Size, VerifierKey: f.Journal.Log.Checkpoints.Keys()[0]}, err
	})
	serve(f, func(ctx context.Context, req *palyrav1.ProveEventRequest) (*palyrav1.ProveEventResponse, error) {
		p, err := f.Journal.Log.Prove(ctx, req.GetSeq())
		if err != nil {
			return nil, notFound("%w", err)
		}
		c, err := f.Journal.Log.Consistency(ctx, req.GetOldTreeSize(), p.Checkpoint.Size)
		if err != nil {
			return nil, reason.Errorf(reason.InvalidInput, "%w", err)
		}
		return &palyrav1.ProveEventResponse{
			Event: wireEvent(p.Event), Checkpoint: p.Checkpoint.Note, VerifierKey: f.Journal.signerOf(p.Checkpoint), Inclusion: hexes(p.Hashes), Consistency: hexes(c.Hashes),
		}, nil
	})
	stream(f, func(ctx context.Context, req *palyrav1.ExportJournalRequest, send func(*palyrav1.ExportJournalResponse) error) error {
		keys, err := f.Journal.keySet()
		if err != nil {
			return err
		}
		return f.Journal.Log.Export(ctx, sendWriter(send), req.GetAfter(), keys)
	})
	serve(f, func(_ context.Context, req *palyrav1.GetAttestationRequest) (*palyrav1.GetAttestationResponse, error) {
		e, ok := f.Journal.Envelopes[req.GetId()]
		if !ok {
			return nil, notFound("attestation %s not found", req.GetId())
		}
		return &palyrav1.GetAttestationResponse{AttestationId: e.ID, EnvelopeJson: e.JSON, JournalSeq: 1}, nil
	})
	serve(f, func(context.Context, *palyrav1.ListAttestationsRequest) (*palyrav1.ListAttestationsResponse, error) {
		out := &palyrav1.ListAttestationsResponse{}
		for id := range f.Journal.Envelopes {
			out.Attestations = append(out.Attestations, &palyrav1.AttestationSummary{AttestationId: id, Tool: "echo", Outcome: "succeeded", At: now})
		}
		return out, nil
	})
	serve(f, func(context.Context, *palyrav1.GetKeySetRequest) (*palyrav1.GetKeySetResponse, error) {
		text, err := f.Journal.keySet()
		return &palyrav1.GetKeySetResponse{KeySetJson: text}, err
	})
}

// sendWriter sends an export in small parts.
type sendWriter func(*palyrav1.ExportJournalResponse) error

func (w sendWriter) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); sent += 1000 {
		if err := w(&palyrav1.ExportJournalResponse{Data: p[sent:min(len(p), sent+1000)]}); err != nil {
			return sent, err
		}
	}
	return len(p), nil
}

func hexes[H ~[32]byte](hashes []H) (list []string) {
	for _, h := range hashes {
		list = append(list, hex.EncodeToString(h[:]))
	}
	return list
}

func wireEvent(e journal.Event) *palyrav1.Event {
	return &palyrav1.Event{
		Seq: e.Seq, EventId: e.ID, At: timestamppb.New(e.At), Code: string(e.Code), Session: e.Session, Run: e.Run,
		Actor: e.Actor, Subject: e.Subject, PayloadJson: e.Payload, Salt: e.Salt,
		PayloadSha256: hex.EncodeToString(e.PayloadSHA256[:]), PrevHash: hex.EncodeToString(e.PrevHash[:]), Hash: hex.EncodeToString(e.Hash[:]),
	}
}

// signerOf returns the key that verifies a checkpoint.
func (j *Journal) signerOf(cp journal.Checkpoint) string {
	for _, key := range j.Log.Checkpoints.Keys() {
		known, err := journal.ParseKeys(key)
		if err != nil {
			return ""
		}
		if _, err := journal.ParseCheckpoint(cp.Note, cp.Origin, known); err == nil {
			return key
		}
	}
	return ""
}

// Opened appends an event without further effect.
func (j *Journal) Opened(t *testing.T) {
	t.Helper()
	must.Get(j.Log.Append(context.Background(), event.Draft{Code: event.Opened, Actor: "service:palyrad", Payload: json.RawMessage(`{"version":"1"}`)}))(t)
}

// Journaled gives the gateway a journal with events and attestations.
func (w *World) Journaled() *Journal {
	w.T.Helper()
	j := NewJournal(w.T, w.CA, NewSigner(w.T))
	j.Events(w.T, 2)
	j.Attested(w.T, `{"text":"one"}`)
	j.Attested(w.T, `{"text":"two"}`)
	w.Gateway.Journal = j
	return j
}

// Export returns the path of an export of the gateway's journal.
func (w *World) Export() string {
	w.T.Helper()
	path := filepath.Join(w.Home, fmt.Sprintf("export-%d.ndjson", time.Now().UnixNano()))
	w.Want(w.Run("journal", "export", path), 0)
	return path
}
