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
	"palyra/internal/call/record/verify"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/progress"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// verifyCommands provides the commands of this family.
type verifyCommands struct{ *client.App }

// verifyFlags are the trust anchors of a verification.
type verifyFlags struct {
	key      string
	keys     string
	stateDir string
}

func (a *verifyCommands) journalVerify() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{Use: "verify [FILE]", Short: "Verify an export with no gateway, or the gateway's journal", Args: command.Args(0, 1),
		Long: "Verify an export (- for stdin) without other data: every event and link,\n" +
			"every checkpoint, the seal over the whole, and every attestation in it, also\n" +
			"against its events. The output names the trusted keys: without --key and --keys,\n" +
			"and for an unknown gateway, these are the keys in the file itself, which prove\n" +
			"only integrity; the first line then states that.\n\n" +
			"Without FILE the gateway's journal is exported and verified, and the last\n" +
			"checkpoint is stored, so that the next check detects a rollback.\n\n" +
			"With --state-dir, or a directory as FILE, the journal of a gateway on this host\n" +
			"is read in place, whether the gateway runs or not.\n\n" +
			"Exits 8 if verification fails, and prints the line and the event; this includes\n" +
			"a key that is not in the key set or of the known gateway. Exits\n" +
			"10 if the key set has version 1, which does not contain the journal's keys.",
		RunE: func(cmd *cobra.Command, given []string) error {
			if f.stateDir != "" && len(given) > 0 {
				return command.Usage("FILE and --state-dir exclude each other")
			}
			return a.tellMachines(a.verify(cmd.Context(), append(given, f.stateDir)[0], f))
		}}
	c.Flags().StringVar(&f.key, "key", "", "the verifier key that must have signed it: name+hash+base64")
	c.Flags().StringVar(&f.stateDir, "state-dir", "", "verify the journal in this state directory of palyrad")
	_ = c.MarkFlagDirname("state-dir")
	c.Flags().StringVar(&f.keys, "keys", "", "the key set to verify journal and attestations (written by: palyra attest keys -o json)")
	return c
}

// verify verifies an export, a state directory, or with "" the gateway's
// journal.
func (a *verifyCommands) verify(ctx context.Context, source string, f verifyFlags) error {
	switch {
	case f.stateDir != "" || source != "" && isDir(source):
		return a.verifyState(ctx, source, f)
	case source == "":
		return a.verifyGateway(ctx, f)
	}
	return a.verifyFile(source, f)
}

// tellMachines prints a failed verification in the selected machine-readable format. Users receive
// the error.
func (a *verifyCommands) tellMachines(err error) error {
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

// The trust anchors in addition to --key and --keys.
const (
	byMemory = "an earlier check of this gateway"
	byBundle = "your credential bundle"
)

// verification is one check of an export.
type verification struct {
	*verify.Export
	a    *client.App
	name string
	// memory is the record of an earlier check of the gateway.
	memory witness.Memory
	// counted counts events.
	counted progress.Meter
}

func (a *verifyCommands) verifyFile(path string, f verifyFlags) error {
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
	if v.Checkpoints, err = m.Within(); err != nil {
		return err
	}
	sum, err := v.run(reader)
	if err != nil {
		return err
	}
	return errors.Join(v.originUnproven(), v.print(sum))
}

func (a *verifyCommands) verifyGateway(ctx context.Context, f verifyFlags) error {
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
	v.CARoot, v.CARootBy, v.VouchedBy = witness.Fingerprint(g.Root), byBundle, byBundle
	if v.Checkpoints, err = m.Within(); err != nil {
		return err
	}
	v.counted.Expect(journalSize(ctx, a.App, g))
	sum, err := v.run(reader)
	if source.failed != nil {
		return source.failed
	}
	if err != nil {
		// A valid journal can fail here because it does not extend the known one; that error is
		// reported first.
		if _, doubt, _ := witness.Status(ctx, a.App, g); doubt != nil {
			return errors.Join(doubt, err)
		}
		return err
	}
	if err := notRolledBack(v.Checkpoints, sum); err != nil {
		return err
	}
	err = witness.Remember(a.App, witness.Memory{Gateway: sum.Gateway, VerifierKey: sum.Key, Keys: sum.Keys, CARoot: v.CARoot, Note: sum.Signed.Note})
	if err != nil {
		return fmt.Errorf("storing the checkpoint: %w", err)
	}
	return errors.Join(v.originUnproven(), v.print(sum))
}

// notRolledBack refuses a complete journal that ends before a known checkpoint.
func notRolledBack(seen []journal.Checkpoint, sum journal.Summary) error {
	for _, cp := range seen {
		if sum.Last < cp.Size {
			return witness.RolledBack(cp, sum.Last)
		}
	}
	return nil
}

// headerRoom is the maximum length in bytes of a header that is read before verification.
const headerRoom = 1 << 20

// newVerification loads the memory of the exporting gateway. caRoot identifies the gateway, or
// else the CA of --keys, or else the CA in the export. The CA in an export is trusted only if
// the memory contains it.
func (a *verifyCommands) newVerification(name string, r *bufio.Reader, f verifyFlags, caRoot string) (*verification, witness.Memory, error) {
	v := &verification{a: a.App, name: name}
	pins := verify.Pins{Key: f.key, SetBy: f.keys}
	if f.key != "" {
		pins.KeyBy = "--key"
	}
	v.Export = verify.NewExport(pins, &v.counted)
	if f.keys != "" {
		set, err := readKeySet(f.keys)
		if err != nil {
			return nil, witness.Memory{}, err
		}
		v.Set, v.CARoot, v.CARootBy = &set, set.Fingerprint(), f.keys
	}
	if caRoot == "" {
		caRoot = cmp.Or(v.CARoot, namedRoot(r))
	}
	if caRoot == "" {
		return v, witness.Memory{}, nil
	}
	m, err := witness.Recall(a.App, caRoot)
	if err != nil {
		return nil, witness.Memory{}, err
	}
	v.memory = m
	v.Signers, v.SignersBy = m.Signing(), byMemory
	if v.CARoot == "" && m.CARoot != "" {
		v.CARoot, v.CARootBy = m.CARoot, byMemory
	}
	return v, m, nil
}

// namedRoot returns the fingerprint of the CA in the header, without consuming the reader; "" if
// none exists.
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

// peekLine returns the first line, limited to the reader's buffer.
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

// looksLikeExport reports whether a first line is apparently the header of an export, valid or not.
func looksLikeExport(line []byte) bool {
	var header struct {
		Format string `json:"format"`
		Kind   string `json:"kind"`
	}
	// A line longer than the buffer is not parsed.
	return len(line) >= headerRoom || json.Unmarshal(line, &header) == nil && header.Format != "" && header.Kind != ""
}

func (v *verification) run(r *bufio.Reader) (journal.Summary, error) {
	notExport := !looksLikeExport(peekLine(r))
	defer v.a.Progress(&v.counted, "verifying", "events")()
	sum, err := v.Export.Verify(r)
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
	failed := reason.Errorf(reason.VerificationFailed, "verifying %s: %w", v.name, err)
	var bad *journal.CorruptError
	if errors.As(err, &bad) {
		failed = failed.WithField("seq", fmt.Sprint(bad.Seq))
	}
	return sum, failed
}

// print prints the verified and the trusted data. Its first line states if the origin was not
// proven.
func (v *verification) print(sum journal.Summary) error {
	body := printer.Object{
		{"source", v.name}, {"verified", true}, {"origin_proven", v.KeyBy != ""},
		{"gateway", sum.Gateway}, {"first", sum.First}, {"last", sum.Last},
		{"events", sum.Events}, {"checkpoints", sum.Checkpoints}, {"erased", sum.Erased}, {"key_rotations", sum.Rotations},
		{"attestations", v.Attestations}, {"erased_attestations", v.Erased}, {"attestations_not_compared", v.NotCompared},
		{"votes_by_passkey", v.Passkeys.Verified}, {"votes_by_passkey_not_compared", v.Passkeys.Unknown}, {"signed_size", sum.Signed.Size},
		{"verifier_key", sum.Key}, {"verifier_key_pinned_by", v.KeyBy},
		{"ca_root", v.CARoot}, {"ca_root_pinned_by", v.CARootBy},
	}
	return v.a.PrintOne("JournalVerification", printer.Record{Name: sum.Gateway, Body: body}, func(p *printer.Page) {
		if v.KeyBy == "" {
			p.Field("origin", "not proven: the keys of the journal are from the file itself; they prove integrity, but not the origin")
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
		p.Field("attestations", fmt.Sprintf("%d verified", v.Attestations))
		if v.Attestations > 0 {
			p.Field("agreeing", fmt.Sprintf("%d with their events", v.Attestations-v.NotCompared)+v.notCompared())
		}
		if n := v.Passkeys.Verified + v.Passkeys.Unknown; n > 0 {
			p.Field("passkeys", fmt.Sprintf("%s proven by their voters' passkeys", text.Plural(v.Passkeys.Verified, "vote"))+earlier(v.Passkeys.Unknown))
		}
		p.Field("signed up to", fmt.Sprint(sum.Signed.Size))
		p.Field("trusted key", sum.Key+trustedBy(v.KeyBy))
		if v.CARoot != "" {
			p.Field("trusted CA", v.CARoot+trustedBy(v.CARootBy))
		}
		if v.KeyBy != "" && v.CARoot != "" && v.CARootBy == "" {
			p.Field("note", "the keys of the attestations are from the file itself; compare the CA over another channel")
		}
	})
}

// notCompared returns how many attestations have their events outside of the export.
func (v *verification) notCompared() string {
	if v.NotCompared == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of calls that started before this export are not compared", v.NotCompared)
}

// earlier returns how many votes have their enrolments outside of the export.
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
