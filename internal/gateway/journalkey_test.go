package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/statedir"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
	"palyra/internal/ops/journalkey"
	"palyra/internal/ops/keyadmin"
	"palyra/internal/store/sqlite"
)

// keySet returns the daemon's key set, and verifies it.
func (d *running) keySet() attest.KeySet {
	d.t.Helper()
	client := palyrav1connect.NewAttestationServiceClient(d.client(), d.url())
	res := must.Get(client.GetKeySet(d.t.Context(), &palyrav1.GetKeySetRequest{}))(d.t)
	set := must.Get(attest.ParseKeySet(res.GetKeySetJson()))(d.t)
	must.Get(attest.NewVerifier(set))(d.t)
	return set
}

func (d *running) export() []byte {
	d.t.Helper()
	stream := must.Get(palyrav1connect.NewJournalServiceClient(d.client(), d.url()).ExportJournal(d.t.Context(), &palyrav1.ExportJournalRequest{}))(d.t)
	defer func() { _ = stream.Close() }()
	var text bytes.Buffer
	for stream.Receive() {
		text.Write(stream.Msg().GetData())
	}
	must.Do(d.t, stream.Err())
	return text.Bytes()
}

// verifiedWith verifies an export with the keys of a set alone.
func verifiedWith(text []byte, set attest.KeySet) (journal.Summary, error) {
	return journal.VerifyExport(bytes.NewReader(text), journal.ExportOptions{Trust: func(json.RawMessage, []string) (journal.Trust, error) {
		t := journal.Trust{Pinned: true, Admit: func(r journal.Rotation) error {
			return set.CheckCheckpointKey(attest.CheckpointKey{Verifier: r.New, CertificateChain: r.Certificate, CertifiedAt: r.At})
		}}
		for _, k := range set.CheckpointKeys {
			t.Keys = append(t.Keys, journal.SigningKey{Verifier: k.Verifier, First: k.FirstSize, Last: k.LastSize})
		}
		return t, nil
	}})
}

// The journal's key is rotated while palyrad runs, and while it is stopped.
func TestRotateJournalKey(t *testing.T) {
	t.Parallel()
	for name, online := range map[string]bool{"online": true, "offline": false} {
		t.Run(name, func(t *testing.T) { rotateJournalKey(t, online) })
	}
}

func rotateJournalKey(t *testing.T, online bool) {
	cfg := testConfig(t)
	d := start(t, cfg)
	before, early := d.keySet(), d.export()
	if !online {
		d.end()
	}
	r := must.Get(RotateKey(t.Context(), cfg, keyadmin.Journal))(t)
	if !online {
		d = start(t, cfg)
	}
	after, late := d.keySet(), d.export()
	keys := after.CheckpointKeys
	if len(keys) != 2 || keys[0].FirstSize != keys[1].LastSize+1 || keys[0].LastSize != 0 || keys[1].FirstSize != 0 ||
		keys[1].Verifier != before.CheckpointKeys[0].Verifier || r.Was == r.Key.SHA256 || r.Key.Past != 1 {
		t.Fatalf("keys %+v after %+v", keys, r)
	}
	for name, c := range map[string]struct {
		text []byte
		set  attest.KeySet
	}{
		"early export, early set": {early, before},
		"early export, late set":  {early, after},
		"late export, late set":   {late, after},
		"late export, early set":  {late, before}, // the old key certifies the new one
	} {
		if sum, err := verifiedWith(c.text, c.set); err != nil || !sum.KeyPinned {
			t.Errorf("%s: %v", name, err)
		}
	}
	if sum, err := verifiedWith(late, after); err != nil || sum.Rotations != 1 || sum.Key != keys[0].Verifier {
		t.Errorf("%+v, %v", sum, err)
	}
	// Control: an export of another gateway, with an unknown key, does not verify.
	other := start(t, testConfig(t))
	if _, err := verifiedWith(other.export(), after); err == nil {
		t.Error("the export of another gateway verifies with the key set of this one")
	}
}

// TestInterruptedRotation: a rotation that a crash interrupted is completed at the next start if
// the journal contains it, and reverted if not.
func TestInterruptedRotation(t *testing.T) {
	t.Parallel()
	for name, durable := range map[string]bool{"the journal has it": true, "the journal does not have it": false} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			start(t, cfg).end()
			authority, _, err := ca.Open(filepath.Join(cfg.StateDir, "ca"), ca.Options{TrustDomain: cfg.TrustDomain})
			must.Do(t, err)
			old := authority.Journal.Verifiers()[0]
			text, next, err := authority.Journal.Next()
			must.Do(t, err)
			origin, known, err := journalkey.Origin(authority)
			must.Do(t, err)
			if durable {
				db := must.Get(sqlite.Open(t.Context(), statedir.Store(cfg.StateDir), sqlite.Options{Origin: origin, Verifiers: known}))(t)
				log := must.Get(journal.New(db, journal.Options{Key: must.Get(journal.ParseKey(authority.Journal.Signer()))(t)}))(t)
				must.Get(log.Checkpoints.Rotate(t.Context(), must.Get(journal.ParseKey(text))(t), next.ChainPEM(), next.CertifiedAt))(t)
				must.Do(t, db.Close(t.Context()))
			}
			d := start(t, cfg)
			want := old
			if durable {
				want = next.Verifier
			}
			set := d.keySet()
			if got := set.CheckpointKeys[0].Verifier; got != want {
				t.Errorf("%s signs, want %s", got, want)
			}
			if _, err := verifiedWith(d.export(), set); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(cfg.StateDir, "ca", "journal-next.json")); err == nil {
				t.Error("the next key is still there")
			}
		})
	}
}

// The first start on the state directory of an older release certifies the existing checkpoint
// key.
func TestCheckpointKeyIsCertifiedAtUpgrade(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	d := start(t, cfg)
	first, old := d.keySet().CheckpointKeys[0], d.export()
	d.end()
	must.Do(t, os.Remove(filepath.Join(cfg.StateDir, "ca", "journal-keys.json")))
	d = start(t, cfg)
	set := d.keySet()
	if k := set.CheckpointKeys; len(k) != 1 || k[0].Verifier != first.Verifier || k[0].FirstSize != 0 || k[0].LastSize != 0 {
		t.Fatalf("keys %+v", k)
	}
	for name, text := range map[string][]byte{"made before": old, "made after": d.export()} {
		if _, err := verifiedWith(text, set); err != nil {
			t.Errorf("an export %s: %v", name, err)
		}
	}
}

// TestFiveYears: everything that a gateway signed over five years verifies, although all
// certificates but the newest expired long ago. Each certificate is checked for the time of the
// signature.
func TestFiveYears(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return clock }
	dir := filepath.Join(t.TempDir(), "state")
	authority, _, err := ca.Open(filepath.Join(dir, "ca"), ca.Options{Now: now})
	must.Do(t, err)
	origin, known, err := journalkey.Origin(authority)
	must.Do(t, err)
	db := must.Get(sqlite.Open(t.Context(), statedir.Store(dir), sqlite.Options{Origin: origin, Verifiers: known, Now: now}))(t)
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	log := must.Get(journalkey.Open(t.Context(), db, authority, journal.Options{}))(t)
	first := authority.Notary.Key()
	notary := must.Get(attest.NewNotary(attest.NotaryConfig{Signer: first.Signer, Chain: first.Chain, Gateway: authority.TrustDomain(), Now: now}))(t)
	var envelopes []attest.Envelope
	for month := range 5 * 12 {
		clock = clock.AddDate(0, 1, 0)
		must.Do(t, authority.Maintain())
		key := authority.Notary.Key()
		must.Do(t, notary.Use(key.Signer, key.Chain))
		envelopes = append(envelopes, must.Get(notary.Sign(t.Context(), anExecution(clock)))(t))
		must.Get(log.Append(t.Context(), event.Draft{Code: event.Opened, Actor: journal.Daemon, Payload: []byte("{}")}))(t)
		must.Get(log.Checkpoints.Write(t.Context()))(t)
		if month == 40 {
			must.Get(journalkey.Rotate(t.Context(), log, authority))(t)
		}
	}
	set := notary.KeySet().WithCheckpointKeys(journalkey.Certified(authority))
	verifier := must.Get(attest.NewVerifier(set))(t)
	for i, e := range envelopes {
		if _, err := verifier.Verify(e.JSON); err != nil {
			t.Errorf("month %d: %v", i, err)
		}
	}
	var text bytes.Buffer
	must.Do(t, log.Export(t.Context(), &text, 0, must.Get(set.JSON())(t)))
	if sum, err := verifiedWith(text.Bytes(), set); err != nil || sum.Checkpoints != 60 || sum.Rotations != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	// Control: a certificate that was not valid at the stated time of certification does not
	// count.
	late := set
	late.CheckpointKeys = slices.Clone(set.CheckpointKeys)
	late.CheckpointKeys[1].CertifiedAt = clock
	if _, err := attest.NewVerifier(late); err == nil {
		t.Error("a certificate is judged at another time than it was made for")
	}
}

// anExecution returns an execution for a notary to sign.
func anExecution(at time.Time) attest.Execution {
	digest := canonical.Digest([]byte("x"))
	return attest.Execution{
		AttestationID: ulid.Make().String(), ProposalID: ulid.Make().String(), DecisionID: ulid.Make().String(),
		Session: "default", Run: "r1", Principal: "agent:claude", OnBehalfOf: "user:ada", Tool: "echo",
		ToolDefinitionDigest: digest, CallDigest: digest, ArgumentsDigest: digest, PolicyVersion: digest, SnapshotDigest: digest,
		ProposedAt: at, DecidedAt: at,
		Report: tool.Report{
			Outcome: tool.Succeeded, Result: json.RawMessage("{}"), StartedAt: at, FinishedAt: at,
			Executor: tool.ExecutorInfo{Name: tool.Builtin, Version: "1", Tier: "builtin"}, Enforcement: tool.Enforcement{Level: "none"},
		},
	}
}
