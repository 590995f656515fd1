package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/evidence/attest"
)

// TestVerifyExport: an export with all its attestations verifies without a gateway, and the
// command prints the source of its trust.
func TestVerifyExport(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Journaled()
	path := w.Export()
	w.Server.CloseClientConnections()
	w.Env["PALYRA_ADDRESS"] = clitest.ClosedAddress
	r := w.Run("journal", "verify", path)
	w.Want(r, 0)
	for _, want := range []string{"2 verified", "gw-test", "from the file itself", "prove integrity, but not the origin"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("does not say %q:\n%s", want, r.Out)
		}
	}
	asJSON := w.Run("journal", "verify", path, "-o", "json")
	var doc struct {
		Verified     bool   `json:"verified"`
		Attestations int    `json:"attestations"`
		Last         int64  `json:"last"`
		VerifierKey  string `json:"verifier_key"`
		PinnedBy     string `json:"verifier_key_pinned_by"`
	}
	if err := json.Unmarshal([]byte(asJSON.Out), &doc); err != nil || !doc.Verified || doc.Attestations != 2 || doc.PinnedBy != "" || doc.Last < 9 {
		t.Errorf("%+v %v", doc, err)
	}
	if r := w.Run("journal", "verify", path, "--key", doc.VerifierKey); !strings.Contains(r.Out, "known from --key") {
		t.Errorf("%d %s", r.Code, r.Out)
	}
	other := clitest.NewJournal(t, w.CA, clitest.NewSigner(t)).Log.Checkpoints.Keys()[0]
	w.Want(w.Run("journal", "verify", path, "--key", other), 8)
	data := must.Get(os.ReadFile(path))(t)
	w.Want(w.With(printer.Streams{In: bytes.NewReader(data)}, "journal", "verify", "-"), 0)
}

// TestVerifyFindsChanges: a change of any byte is found, with its line.
func TestVerifyFindsChanges(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Journaled()
	data := must.Get(os.ReadFile(w.Export()))(t)
	for i := 0; i < len(data); i += 37 {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		r := w.With(printer.Streams{In: bytes.NewReader(changed)}, "journal", "verify", "-")
		if r.Code != 8 || !strings.Contains(r.Err, "line ") || r.Out != "" {
			t.Errorf("byte %d: exit code %d: %s%s", i, r.Code, r.Out, r.Err)
		}
	}
	for _, cut := range []int{0, 1, len(data) / 2, len(data) - 1} {
		r := w.With(printer.Streams{In: bytes.NewReader(data[:cut])}, "journal", "verify", "-")
		if r.Code != 8 {
			t.Errorf("cut at %d: exit code %d", cut, r.Code)
		}
	}
}

// TestVerifyFindsForgedAttestations: an attestation by another notary, or of another call, does
// not verify although the journal is intact. Control: TestVerifyExport.
func TestVerifyFindsForgedAttestations(t *testing.T) {
	t.Parallel()
	t.Run("another notary", func(t *testing.T) {
		w := clitest.NewWorld(t)
		j := w.Journaled()
		forger := clitest.NewJournal(t, clitest.NewAuthority(t), clitest.NewSigner(t))
		id := forger.Attested(t, `{}`)
		j.JournalEnvelope(t, id, "01PROPOSAL0000000000000000", forger.Envelopes[id].JSON)
		r := w.Run("journal", "verify", w.Export())
		w.Want(r, 8)
		if !strings.Contains(r.Err, "sequence number 11:") {
			t.Error(r.Err)
		}
	})
	t.Run("another call", func(t *testing.T) {
		w := clitest.NewWorld(t)
		j := w.Journaled()
		id := j.Attested(t, `{}`)
		j.JournalEnvelope(t, id, "01PROPOSAL0000000000000000", j.Envelopes[id].JSON)
		r := w.Run("journal", "verify", w.Export())
		w.Want(r, 8)
		if !strings.Contains(r.Err, "it belongs to another call") {
			t.Error(r.Err)
		}
	})
	t.Run("another CA", func(t *testing.T) {
		w, other := clitest.NewWorld(t), clitest.NewWorld(t)
		w.Journaled()
		other.Journaled()
		keys := other.Write("keys.json", other.Run("attest", "keys", "-o", "json").Out)
		mine := w.Write("keys.json", w.Run("attest", "keys", "-o", "json").Out)
		path := w.Export()
		w.Want(w.Run("journal", "verify", path, "--keys", keys), 8)
		w.Want(w.Run("journal", "verify", path, "--keys", mine), 0)
	})
}

// TestVerifyGatewayStoresTheKey: verifying a gateway stores its key and CA for the verification of
// exports, and a journal that was rolled back or forked is detected.
func TestVerifyGatewayStoresTheKey(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	signer := clitest.NewSigner(t)
	j := clitest.NewJournal(t, w.CA, signer)
	j.Events(t, 9)
	w.Gateway.Journal = j
	w.Want(w.Run("journal", "verify"), 0)
	if r := w.Run("journal", "verify", w.Export()); !strings.Contains(r.Out, "known from an earlier check of this gateway") {
		t.Error(r.Out)
	}
	j.Events(t, 3)
	w.Want(w.Run("journal", "verify"), 0)

	shorter := clitest.NewJournal(t, w.CA, signer)
	shorter.Events(t, 4)
	w.Gateway.Journal = shorter
	for _, args := range [][]string{{"journal", "verify"}, {"journal", "prove", "1"}} {
		r := w.Run(args...)
		if r.Code != 8 || !strings.Contains(r.Err, "rolled back") {
			t.Errorf("%v after a rollback: exit code %d: %s", args, r.Code, r.Err)
		}
	}
	forked := clitest.NewJournal(t, w.CA, signer)
	forked.Events(t, 20)
	w.Gateway.Journal = forked
	for _, args := range [][]string{{"journal", "verify"}, {"journal", "prove", "1"}} {
		r := w.Run(args...)
		if r.Code != 8 {
			t.Errorf("%v after a fork: exit code %d: %s", args, r.Code, r.Err)
		}
	}
	otherKey := clitest.NewJournal(t, w.CA, clitest.NewSigner(t))
	otherKey.Events(t, 20)
	w.Gateway.Journal = otherKey
	if r := w.Run("journal", "prove", "1"); r.Code != 8 || !strings.Contains(r.Err, "another key than before") {
		t.Errorf("exit code %d: %s", r.Code, r.Err)
	}
	// Control: without the stored key the change is not detected.
	must.Do(t, os.RemoveAll(filepath.Join(w.Home, "state", "palyra-cli")))
	w.Want(w.Run("journal", "prove", "1"), 0)
}

func TestProve(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	j := w.Journaled()
	first := w.Run("journal", "prove", "3")
	w.Want(first, 0)
	if !strings.Contains(first.Out, "first use") {
		t.Error(first.Out)
	}
	j.Events(t, 30)
	second := w.Run("journal", "prove", "35")
	w.Want(second, 0)
	if !strings.Contains(second.Out, "the known checkpoint over") {
		t.Error(second.Out)
	}
	w.Want(w.Run("journal", "prove", "2", "-o", "json"), 0)
	w.Want(w.Run("journal", "prove", "999"), 1)
	w.Want(w.Run("journal", "prove", "x"), 2)
}

func TestJournalPages(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Journaled()
	r := w.Run("journal", "list", "-o", "name")
	w.Want(r, 0)
	if r.Out != "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n" {
		t.Errorf("%q", r.Out)
	}
	if r := w.Run("journal", "list", "--limit", "3", "-o", "name"); r.Out != "1\n2\n3\n4\n" && r.Out != "1\n2\n3\n" {
		t.Errorf("%q", r.Out)
	}
	if r := w.Run("journal", "list", "--code", "PAL-X"); strings.Count(r.Out, "attested") != 2 {
		t.Error(r.Out)
	}
	show := w.Run("journal", "show", "6")
	w.Want(show, 0)
	if !strings.Contains(show.Out, "PAL-X100  attested") || !strings.Contains(show.Out, `"envelope"`) {
		t.Error(show.Out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	watch := clitest.NewWatcher("\n9\n")
	go func() { <-watch.Seen; cancel() }()
	tail := w.Within(ctx, printer.Streams{Out: watch}, "journal", "tail", "--after", "6", "-o", "name")
	w.Want(tail, 0)
	_ = tail
}

func TestAttest(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	j := w.Journaled()
	id := j.Attested(t, `{"text":"three"}`)
	show := w.Run("attest", "show", id)
	w.Want(show, 0)
	if !strings.Contains(show.Out, "yes, signed by "+j.Notary.KeySet().Keys[0].KeyID) {
		t.Error(show.Out)
	}
	w.Want(w.Run("attest", "list"), 0)
	w.Want(w.Run("attest", "keys"), 0)
	keys := w.Write("keys.json", w.Run("attest", "keys", "-o", "json").Out)
	if _, err := attest.ParseKeySet([]byte(w.Run("attest", "keys", "-o", "json").Out)); err != nil {
		t.Error(err)
	}
	envelope := w.Write("envelope.json", w.Run("attest", "show", id, "--envelope").Out)
	document := w.Write("document.json", w.Run("attest", "show", id, "-o", "json").Out)
	right, wrong := w.Write("right", `{"text":"three"}`), w.Write("wrong", `{"text":"four"}`)
	w.Want(w.Run("attest", "verify", envelope), 0)
	for given, code := range map[string]int{id: 0, strings.ToLower(id): 0, id[:10]: 0, "01ZZZZZZZZZZZZZZZZZZZZZZZZ": 1, "nowhere.json": 2} {
		if r := w.Run("attest", "verify", given); r.Code != code || code == 0 && !strings.Contains(r.Out, "yes, signed by ") {
			t.Errorf("verify %s: exit code %d, want %d: %s%s", given, r.Code, code, r.Out, r.Err)
		}
	}
	w.Want(w.Run("attest", "verify", id, "--keys", keys, "--result", wrong), 8)

	w.Env["PALYRA_ADDRESS"] = clitest.ClosedAddress // offline from here on
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{envelope, "--keys", keys}, 0},
		{[]string{document, "--keys", keys}, 0},
		{[]string{envelope, "--keys", keys, "--result", right}, 0},
		{[]string{envelope, "--keys", keys, "--result", wrong}, 8},
		{[]string{keys, "--keys", keys}, 8},
		{[]string{envelope, "--keys", envelope}, 8},
		{[]string{"/nowhere", "--keys", keys}, 2},
		{[]string{envelope}, 6},
	} {
		r := w.Run(append([]string{"attest", "verify"}, c.args...)...)
		if r.Code != c.code {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, r.Code, c.code, r.Err)
		}
	}
	data := must.Get(os.ReadFile(envelope))(t)
	for i := 0; i < len(data); i += 41 {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		path := w.Write("changed.json", string(changed))
		if r := w.Run("attest", "verify", path, "--keys", keys); r.Code != 8 {
			t.Errorf("byte %d: exit code %d", i, r.Code)
		}
	}
}

// TestKeySetOfAnotherCA: a key set of another CA than the bundle's is refused.
func TestKeySetOfAnotherCA(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	j := w.Journaled()
	id := j.Attested(t, `{}`)
	w.Want(w.Run("attest", "show", id), 0)
	j.Notary = clitest.NewNotary(t, clitest.NewAuthority(t))
	r := w.Run("attest", "show", id)
	w.Want(r, 8)
	if !strings.Contains(r.Err, "another CA than your credential bundle") {
		t.Error(r.Err)
	}
	w.Want(w.Run("journal", "verify"), 8)
}

func TestExportFile(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Journaled()
	path := w.Export()
	if r := w.Run("journal", "export", path); r.Code != 2 {
		t.Errorf("an existing file was overwritten: %d", r.Code)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if r := w.Run("journal", "export"); r.Code != 0 || !strings.HasPrefix(r.Out, `{"after":0,`) {
		t.Errorf("%d %.80s", r.Code, r.Out)
	}
}
