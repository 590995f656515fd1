package evidence

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/record"
	"palyra/internal/call/record/verify"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/event"
	"palyra/internal/core/progress"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/passkey"
)

// verifyFlags say what an export is held against.
type verifyFlags struct {
	key      string
	keys     string
	stateDir string
}

func (a *app) journalVerify() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{Use: "verify [FILE]", Short: "Verify an export with no gateway, or the gateway's journal", Args: command.Args(0, 1),
		Long: "Verify an export (- for stdin) with nothing but the file: every event and link,\n" +
			"every checkpoint, the seal over the whole, and every attestation in it, also\n" +
			"against the events beside it. It says what it trusted: without --key and --keys,\n" +
			"and when this gateway was not seen before, that is the keys in the file itself,\n" +
			"which prove only that it is whole; the first line says so.\n\n" +
			"Without FILE the gateway's journal is exported and verified, and the last\n" +
			"checkpoint is remembered, so that the next check notices a rollback.\n\n" +
			"With --state-dir, or a directory as FILE, the journal of a gateway on this host\n" +
			"is read where it lies, whether the gateway runs or not.\n\n" +
			"Exits 8 when something does not verify, and names the line and the event; a key\n" +
			"that the key set or the remembered gateway does not know is such a thing. Exits\n" +
			"10 when the key set is of version 1, which does not name the journal's keys.",
		RunE: func(cmd *cobra.Command, given []string) error {
			if f.stateDir != "" && len(given) > 0 {
				return command.Usage("FILE and --state-dir exclude each other")
			}
			return a.tellMachines(a.verify(cmd.Context(), append(given, f.stateDir)[0], f))
		}}
	c.Flags().StringVar(&f.key, "key", "", "the verifier key that must have signed it: name+hash+base64")
	c.Flags().StringVar(&f.stateDir, "state-dir", "", "verify the journal in this state directory of palyrad")
	_ = c.MarkFlagDirname("state-dir")
	c.Flags().StringVar(&f.keys, "keys", "", "the key set that journal and attestations must verify with (written by: palyra attest keys -o json)")
	return c
}

// verify verifies an export, a state directory, or with "" the gateway's
// journal.
func (a *app) verify(ctx context.Context, source string, f verifyFlags) error {
	switch {
	case f.stateDir != "" || source != "" && isDir(source):
		return a.verifyState(ctx, source, f)
	case source == "":
		return a.verifyGateway(ctx, f)
	}
	return a.verifyFile(source, f)
}

// tellMachines prints a verification that failed in the format that one which
// succeeded would have. People read the error.
func (a *app) tellMachines(err error) error {
	var e *reason.Error
	if a.Format() == printer.FormatTable || !errors.As(err, &e) || e.Code != reason.VerificationFailed {
		return err
	}
	body := printer.Object{{"verified", false}, {"problem", e.Message}}
	var bad *journal.CorruptError
	if errors.As(err, &bad) {
		body = append(body, printer.Member{"seq", bad.Seq})
	}
	var at *journal.ExportError
	if errors.As(err, &at) {
		body = append(body, printer.Member{"line", at.Line})
	}
	return errors.Join(err, a.PrintOne("JournalVerification", printer.Record{Name: "damaged", Body: body}, nil))
}

// What a key may be known from, beside --key and --keys.
const (
	byMemory = "an earlier check of this gateway"
	byBundle = "your credential bundle"
)

// verification is one check of an export.
type verification struct {
	// contradiction is the first that the events say against each other.
	contradiction error
	a             *app
	name          string
	// key and caRoot are pinned; keyBy and caRootBy say by what.
	key, keyBy       string
	caRoot, caRootBy string
	// set is that of --keys, in the file keys.
	set  *attest.KeySet
	keys string
	// memory is what is remembered of the gateway.
	memory     witness.Memory
	remembered []journal.Checkpoint

	verifier     *attest.Verifier
	attestations int
	erased       int
	calls        *verify.Calls
	passkeys     passkey.Log
	// counted counts events.
	counted progress.Meter
	// begunEarlier counts attestations of calls whose events before it are not
	// in the export.
	begunEarlier int
}

func (a *app) verifyFile(path string, f verifyFlags) error {
	in, name := a.In, "stdin"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return command.Usage("opening the export: %w", err)
		}
		defer file.Close()
		in, name = file, path
	}
	reader := bufio.NewReaderSize(in, headerRoom)
	v, m, err := a.newVerification(name, reader, f, "")
	if err != nil {
		return err
	}
	if v.remembered, err = m.Within(); err != nil {
		return err
	}
	sum, err := v.run(reader)
	if err != nil {
		return err
	}
	return errors.Join(v.originUnproven(), v.print(sum))
}

func (a *app) verifyGateway(ctx context.Context, f verifyFlags) error {
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	source, err := openExport(ctx, g, &palyrav1.ExportJournalRequest{})
	if err != nil {
		return err
	}
	defer source.close()
	reader := bufio.NewReaderSize(source, headerRoom)
	v, m, err := a.newVerification("the journal of the gateway at "+g.Address, reader, f, witness.Fingerprint(g.Root))
	if source.failed != nil {
		return source.failed
	}
	if err != nil {
		return err
	}
	v.caRoot, v.caRootBy = witness.Fingerprint(g.Root), byBundle
	if v.remembered, err = m.Within(); err != nil {
		return err
	}
	v.counted.Expect(a.journalSize(ctx, g))
	sum, err := v.run(reader)
	if source.failed != nil {
		return source.failed
	}
	if err != nil {
		// A journal that verifies by itself may not be the one that was seen.
		if _, doubt, _ := witness.Status(ctx, a.App, g); doubt != nil {
			return errors.Join(doubt, err)
		}
		return err
	}
	if err := notRolledBack(v.remembered, sum); err != nil {
		return err
	}
	err = witness.Remember(a.App, witness.Memory{Gateway: sum.Gateway, VerifierKey: sum.Key, Keys: sum.Keys, CARoot: v.caRoot, Note: sum.Signed.Note})
	if err != nil {
		return fmt.Errorf("remembering the checkpoint: %w", err)
	}
	return errors.Join(v.originUnproven(), v.print(sum))
}

// notRolledBack refuses a whole journal that ends before a checkpoint that was
// seen.
func notRolledBack(seen []journal.Checkpoint, sum journal.Summary) error {
	for _, cp := range seen {
		if sum.Last < cp.Size {
			return witness.RolledBack(cp, sum.Last)
		}
	}
	return nil
}

// headerRoom is the longest header that is looked into before it is verified.
const headerRoom = 1 << 20

// newVerification finds out what is known of the gateway whose export it is:
// by the CA of the credential bundle, or else by the one that the export
// names, which means nothing unless it is remembered.
func (a *app) newVerification(name string, r *bufio.Reader, f verifyFlags, caRoot string) (*verification, witness.Memory, error) {
	v := &verification{a: a, name: name, key: f.key, keys: f.keys}
	if f.keys != "" {
		set, err := readKeySet(f.keys)
		if err != nil {
			return nil, witness.Memory{}, err
		}
		v.set, v.caRoot, v.caRootBy = &set, set.Fingerprint(), f.keys
	}
	if caRoot == "" {
		caRoot = cmp.Or(v.caRoot, namedRoot(r))
	}
	if caRoot == "" {
		return v, witness.Memory{}, nil
	}
	m, err := witness.Recall(a.App, caRoot)
	if err != nil {
		return nil, witness.Memory{}, err
	}
	v.memory = m
	if v.caRoot == "" && m.CARoot != "" {
		v.caRoot, v.caRootBy = m.CARoot, byMemory
	}
	return v, m, nil
}

// namedRoot returns the fingerprint of the CA that the header names, without
// taking anything from the reader; "" when there is none.
func namedRoot(r *bufio.Reader) string {
	var header struct {
		Keys json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(peekLine(r), &header) != nil {
		return ""
	}
	set, err := attest.ParseKeySet(header.Keys)
	if err != nil {
		return ""
	}
	return set.Fingerprint()
}

// peekLine returns the first line, as far as the reader's buffer holds it.
func peekLine(r *bufio.Reader) []byte {
	for n := 4096; ; n = min(2*n, r.Size()) {
		head, err := r.Peek(n)
		if i := bytes.IndexByte(head, '\n'); i >= 0 {
			return head[:i]
		}
		if err != nil || n == r.Size() {
			return head
		}
	}
}

// looksLikeExport reports whether a first line means to be the header of an
// export, right or wrong.
func looksLikeExport(line []byte) bool {
	var header struct {
		Format string `json:"format"`
		Kind   string `json:"kind"`
	}
	// A line that does not end within the buffer is looked into no further.
	return len(line) >= headerRoom || json.Unmarshal(line, &header) == nil && header.Format != "" && header.Kind != ""
}

func (v *verification) run(r *bufio.Reader) (journal.Summary, error) {
	notExport := !looksLikeExport(peekLine(r))
	defer v.a.Progress(&v.counted, "verifying", "events")()
	sum, err := journal.VerifyExport(r, journal.ExportOptions{Key: v.key, Trust: v.trust, Remembered: v.remembered, Visit: v.visit})
	if err == nil {
		err = v.contradiction
	}
	var unknown *journal.UnknownKeyError
	switch {
	case err == nil:
		return sum, nil
	case notExport:
		return sum, reason.Errorf(reason.VerificationFailed, "%s is not a journal export: line 1 is not the header of one", v.name).
			WithRemedy("Write one with `palyra journal export FILE`.")
	case errors.As(err, &unknown):
		return sum, v.unknownKey(unknown)
	}
	failed := reason.Errorf(reason.VerificationFailed, "%s does not verify: %w", v.name, err)
	var bad *journal.CorruptError
	if errors.As(err, &bad) {
		failed = failed.WithField("seq", fmt.Sprint(bad.Seq))
	}
	return sum, failed
}

// visit verifies the key set of the header, and the attestation in each event
// that holds one.
func (v *verification) visit(keys json.RawMessage, e *journal.Event) error {
	if e == nil {
		return v.start(keys)
	}
	v.counted.Add(1)
	if v.contradiction == nil {
		v.contradiction = v.examine(e)
	}
	return nil
}

// examine holds an event against those before it. What it finds is told when the
// chain is whole: where that breaks comes first.
func (v *verification) examine(e *journal.Event) error {
	if v.calls == nil {
		v.calls = verify.New(e.Seq - 1)
		v.passkeys.Whole, v.passkeys.Gateway = e.Seq == 1, v.caRoot
	}
	if err := record.NotePasskey(&v.passkeys, e); err != nil {
		return &journal.CorruptError{Seq: e.Seq, What: "what it says of a passkey: " + err.Error()}
	}
	if e.Code != event.Attested {
		return v.calls.Note(e)
	}
	defer func() { _ = v.calls.Note(e) }() // it ends the call
	if e.Erased() {
		v.erased++
		return nil
	}
	decoded, err := record.Decode(e)
	payload, ok := decoded.(*record.Attested)
	if err != nil || !ok {
		return badAttestation(e.Seq, fmt.Sprintf("it cannot be read: %v", err))
	}
	if v.verifier == nil {
		return badAttestation(e.Seq, "there is no key set to verify it with")
	}
	got, err := v.verifier.Verify(payload.Envelope)
	if err != nil {
		return badAttestation(e.Seq, err.Error())
	}
	if got.Predicate.AttestationID != payload.AttestationID || got.Predicate.Invocation.ProposalID != payload.ProposalID {
		return badAttestation(e.Seq, "it is that of another call, proposal "+got.Predicate.Invocation.ProposalID)
	}
	why, compared := v.calls.Check(e, got.Predicate, payload)
	if why != "" {
		return badAttestation(e.Seq, payload.AttestationID+" contradicts the journal: "+why)
	}
	if !compared {
		v.begunEarlier++
	}
	v.attestations++
	return nil
}

func badAttestation(seq int64, what string) error {
	return &journal.CorruptError{Seq: seq, What: "the attestation in it: " + what}
}

// start chooses the key set: the one of --keys, or else that of the file, held
// against the pinned root.
func (v *verification) start(keys json.RawMessage) error {
	set := v.set
	if set == nil {
		if len(keys) == 0 || string(keys) == "null" {
			return nil
		}
		parsed, err := attest.ParseKeySet(keys)
		if err != nil {
			return err
		}
		set = &parsed
	}
	if v.caRoot != "" && set.Fingerprint() != v.caRoot {
		return fmt.Errorf("the key set leads to the CA %s, not to %s, which is known from %s", set.Fingerprint(), v.caRoot, v.caRootBy)
	}
	if v.caRoot == "" {
		v.caRoot, v.caRootBy = set.Fingerprint(), ""
	}
	verifier, err := attest.NewVerifier(*set)
	v.verifier = verifier
	return err
}

// print says what was verified and what was trusted. Who reads one line reads
// what was not proven.
func (v *verification) print(sum journal.Summary) error {
	body := printer.Object{
		{"source", v.name}, {"verified", true}, {"origin_proven", v.keyBy != ""},
		{"gateway", sum.Gateway}, {"first", sum.First}, {"last", sum.Last},
		{"events", sum.Events}, {"checkpoints", sum.Checkpoints}, {"erased", sum.Erased}, {"key_rotations", sum.Rotations},
		{"attestations", v.attestations}, {"erased_attestations", v.erased}, {"attestations_not_compared", v.begunEarlier},
		{"votes_by_passkey", v.passkeys.Verified}, {"votes_by_passkey_not_compared", v.passkeys.Unknown}, {"signed_size", sum.Signed.Size},
		{"verifier_key", sum.Key}, {"verifier_key_pinned_by", v.keyBy},
		{"ca_root", v.caRoot}, {"ca_root_pinned_by", v.caRootBy},
	}
	return v.a.PrintOne("JournalVerification", printer.Record{Name: sum.Gateway, Body: body}, func(p *printer.Page) {
		if v.keyBy == "" {
			p.Field("origin", "not proven: the keys that signed the journal came from the file itself; they prove that it is whole, not whose it is")
		}
		p.Field("verified", v.name)
		p.Field("gateway", sum.Gateway)
		p.Field("events", fmt.Sprintf("%d (%d to %d), %s", sum.Events, sum.First, sum.Last, text.Plural(int(sum.Checkpoints), "checkpoint")))
		if sum.Rotations > 0 {
			p.Field("key replaced", text.Plural(int(sum.Rotations), "time"))
		}
		if sum.Erased > 0 {
			p.Field("erased", text.Plural(int(sum.Erased), "payload"))
		}
		p.Field("attestations", fmt.Sprintf("%d verified", v.attestations))
		if v.attestations > 0 {
			p.Field("agreeing", fmt.Sprintf("%d with the events beside them", v.attestations-v.begunEarlier)+v.notCompared())
		}
		if n := v.passkeys.Verified + v.passkeys.Unknown; n > 0 {
			p.Field("passkeys", fmt.Sprintf("%s proven by their voters' passkeys", text.Plural(v.passkeys.Verified, "vote"))+earlier(v.passkeys.Unknown))
		}
		p.Field("signed up to", fmt.Sprint(sum.Signed.Size))
		p.Field("trusted key", sum.Key+trustedBy(v.keyBy))
		if v.caRoot != "" {
			p.Field("trusted CA", v.caRoot+trustedBy(v.caRootBy))
		}
		if v.keyBy != "" && v.caRoot != "" && v.caRootBy == "" {
			p.Field("note", "the keys of the attestations came from the file itself; compare the CA over another channel")
		}
	})
}

// notCompared says of how many attestations the events are elsewhere.
func (v *verification) notCompared() string {
	if v.begunEarlier == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of calls that began before this export are not compared with theirs", v.begunEarlier)
}

// earlier says of how many votes the enrolments are elsewhere.
func earlier(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of passkeys that were enrolled before this export are not", n)
}

func trustedBy(by string) string {
	if by == "" {
		return " (from the file itself)"
	}
	return " (known from " + by + ")"
}
