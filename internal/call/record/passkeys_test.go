package record_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/passkey"
	"palyra/internal/identity/passkey/passkeytest"
)

const (
	gatewayName = "sha256:of-the-root"
	pageOrigin  = "http://palyra-k3x.localhost:7145"
	rpID        = "palyra-k3x.localhost"
)

// story is a journal about one passkey and one vote with it.
type story struct {
	by       *passkeytest.Authenticator
	enrolled passkey.EnrolledPayload
	voted    approval.VotedPayload
	removed  bool
}

func newStory(t *testing.T) *story {
	t.Helper()
	ada := access.User("ada")
	s := &story{by: passkeytest.New(t, pageOrigin)}
	s.by.Count = 7
	s.enrolled = passkey.EnrolledPayload{Credential: passkey.Text(s.by.ID), Member: ada, PublicKey: s.by.PublicKey(t), RPID: rpID, Gateway: gatewayName, SignCount: 3}
	s.voted = approval.VotedPayload{ApprovalID: "01A", CallDigest: "sha256:call", Version: 5, Vote: approval.Vote{
		User: ada, Surface: access.SurfaceConsole, Present: true, Allow: true, Scope: approval.Timeboxed, TTL: time.Hour, Uses: 2, Match: approval.MatchExact,
		Reason: "fine", ShownDigest: "sha256:call", Passkey: &passkey.Assertion{Version: 4, Nonce: make([]byte, 32)},
	}}
	proof := s.by.Sign(t, rpID, must.Get(passkey.Challenge(s.voted.Vote.Said(gatewayName, "01A")))(t))
	proof.Version, proof.Nonce = 4, make([]byte, 32)
	s.voted.Vote.Passkey = &proof
	return s
}

// read verifies the journal of the story without any other source.
func (s *story) read(t *testing.T, log *passkey.Log) error {
	t.Helper()
	events := []journal.Event{{Code: event.PasskeyEnrolled, Payload: must.Get(canonical.Marshal(s.enrolled))(t)}}
	if s.removed {
		events = append(events, journal.Event{Code: event.PasskeyRemoved, Payload: must.Get(json.Marshal(passkey.ChangedPayload{Credential: s.enrolled.Credential, Host: true}))(t)})
	}
	events = append(events, journal.Event{Code: event.Voted, Payload: must.Get(canonical.Marshal(s.voted))(t)})
	for i := range events {
		events[i].Salt = []byte{1}
		if err := record.NotePasskey(log, &events[i]); err != nil {
			return err
		}
	}
	return nil
}

// An attacker who rewrites the journal with the gateway's keys cannot change a vote by a
// passkey. Every part of the vote is covered by the passkey's signature, so the change is
// detected.
func TestTamperedVotesAreFound(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(s *story, v *approval.Vote){
		"the control":       nil,
		"another decision":  func(_ *story, v *approval.Vote) { v.Allow = false },
		"another scope":     func(_ *story, v *approval.Vote) { v.Scope = approval.Session },
		"a longer time":     func(_ *story, v *approval.Vote) { v.TTL *= 2 },
		"more uses":         func(_ *story, v *approval.Vote) { v.Uses = 0 },
		"a wider match":     func(_ *story, v *approval.Vote) { v.Match = approval.MatchTool },
		"another reason":    func(_ *story, v *approval.Vote) { v.Reason = "the boss said so" },
		"another surface":   func(_ *story, v *approval.Vote) { v.Surface = access.SurfaceCLI },
		"another voter":     func(_ *story, v *approval.Vote) { v.User = access.User("bob") },
		"another call":      func(s *story, v *approval.Vote) { s.voted.CallDigest, v.ShownDigest = "sha256:other", "sha256:other" },
		"shown another":     func(s *story, _ *approval.Vote) { s.voted.CallDigest = "sha256:other" },
		"another approval":  func(s *story, _ *approval.Vote) { s.voted.ApprovalID = "01B" },
		"another version":   func(s *story, _ *approval.Vote) { s.voted.Version++ },
		"not present":       func(_ *story, v *approval.Vote) { v.Present = false },
		"another signature": func(_ *story, v *approval.Vote) { v.Passkey.Signature[9] ^= 1 },
		"another key":       func(s *story, _ *approval.Vote) { s.enrolled.PublicKey = passkeytest.New(t, pageOrigin).PublicKey(t) },
		"another party":     func(s *story, _ *approval.Vote) { s.enrolled.RPID = "localhost" },
		"another gateway":   func(s *story, _ *approval.Vote) { s.enrolled.Gateway = "sha256:theirs" },
		"one that waits":    func(s *story, _ *approval.Vote) { s.enrolled.Waits = true },
		"one removed":       func(s *story, _ *approval.Vote) { s.removed = true },
		"a counter back":    func(s *story, _ *approval.Vote) { s.enrolled.SignCount = 7 },
		"never enrolled":    func(s *story, _ *approval.Vote) { s.enrolled.Credential = "b3RoZXI" },
	} {
		s, log := newStory(t), &passkey.Log{Whole: true}
		if tamper != nil {
			tamper(s, &s.voted.Vote)
		}
		err := s.read(t, log)
		if (err == nil) != (tamper == nil) || (log.Verified == 1) != (tamper == nil) {
			t.Errorf("%s: %v, %d verified", name, err, log.Verified)
		}
	}
}

// A vote whose passkey was enrolled before the given part of the journal cannot be verified,
// and is counted as unknown. A gateway identity from another source must match the journal's.
func TestPartOfAJournal(t *testing.T) {
	t.Parallel()
	s, log := newStory(t), &passkey.Log{}
	s.enrolled.Credential = "b3RoZXI"
	if err := s.read(t, log); err != nil || log.Unknown != 1 || log.Verified != 0 {
		t.Errorf("%v, %+v", err, log)
	}
	if err := newStory(t).read(t, &passkey.Log{Whole: true, Gateway: "sha256:known"}); err == nil || !strings.Contains(err.Error(), "another gateway") {
		t.Errorf("another gateway: %v", err)
	}
	must.Do(t, newStory(t).read(t, &passkey.Log{Whole: true, Gateway: gatewayName}))
}
