package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/attest"
)

// journaled gives the gateway a journal with events and attestations.
func (w *world) journaled() *fakeJournal {
	w.t.Helper()
	j := newFakeJournal(w.t, w.ca, newSigner(w.t))
	j.events(w.t, 2)
	j.attested(w.t, `{"text":"one"}`)
	j.attested(w.t, `{"text":"two"}`)
	w.gateway.journal = j
	return j
}

func (w *world) export() string {
	w.t.Helper()
	path := filepath.Join(w.home, fmt.Sprintf("export-%d.ndjson", time.Now().UnixNano()))
	w.want(w.run("journal", "export", path), 0)
	return path
}

// TestVerifyExport: an export verifies with no gateway, with every
// attestation in it, and says what it trusted.
func TestVerifyExport(t *testing.T) {
	w := newWorld(t)
	w.journaled()
	path := w.export()
	w.server.CloseClientConnections()
	w.env["PALYRA_ADDRESS"] = closedAddress
	r := w.run("journal", "verify", path)
	w.want(r, 0)
	for _, want := range []string{"2 verified", "gw-test", "from the file itself", "prove that it is whole, not whose it is"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("does not say %q:\n%s", want, r.out)
		}
	}
	asJSON := w.run("journal", "verify", path, "-o", "json")
	var doc struct {
		Verified     bool   `json:"verified"`
		Attestations int    `json:"attestations"`
		Last         int64  `json:"last"`
		VerifierKey  string `json:"verifier_key"`
		PinnedBy     string `json:"verifier_key_pinned_by"`
	}
	if err := json.Unmarshal([]byte(asJSON.out), &doc); err != nil || !doc.Verified || doc.Attestations != 2 || doc.PinnedBy != "" || doc.Last < 9 {
		t.Errorf("%+v %v", doc, err)
	}
	if r := w.run("journal", "verify", path, "--key", doc.VerifierKey); !strings.Contains(r.out, "known from --key") {
		t.Errorf("%d %s", r.code, r.out)
	}
	other := newFakeJournal(t, w.ca, newSigner(t)).log.Keys()[0]
	w.want(w.run("journal", "verify", path, "--key", other), 8)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w.want(w.with(Streams{In: bytes.NewReader(data)}, "journal", "verify", "-"), 0)
}

// TestVerifyFindsChanges: one changed byte anywhere is found, with its line.
func TestVerifyFindsChanges(t *testing.T) {
	w := newWorld(t)
	w.journaled()
	data, err := os.ReadFile(w.export())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 37 {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		r := w.with(Streams{In: bytes.NewReader(changed)}, "journal", "verify", "-")
		if r.code != 8 || !strings.Contains(r.err, "line ") || r.out != "" {
			t.Errorf("byte %d: exit code %d: %s%s", i, r.code, r.out, r.err)
		}
	}
	for _, cut := range []int{0, 1, len(data) / 2, len(data) - 1} {
		r := w.with(Streams{In: bytes.NewReader(data[:cut])}, "journal", "verify", "-")
		if r.code != 8 {
			t.Errorf("cut at %d: exit code %d", cut, r.code)
		}
	}
}

// TestVerifyFindsForgedAttestations: an attestation that another notary
// signed, and one that belongs to another call, do not pass although the
// journal around them is whole. The control is TestVerifyExport.
func TestVerifyFindsForgedAttestations(t *testing.T) {
	t.Run("another notary", func(t *testing.T) {
		w := newWorld(t)
		j := w.journaled()
		forger := newFakeJournal(t, newAuthority(t), newSigner(t))
		id := forger.attested(t, `{}`)
		j.journalEnvelope(t, id, "01PROPOSAL0000000000000000", forger.envelopes[id].JSON)
		r := w.run("journal", "verify", w.export())
		w.want(r, 8)
		if !strings.Contains(r.err, "sequence number 11:") {
			t.Error(r.err)
		}
	})
	t.Run("another call", func(t *testing.T) {
		w := newWorld(t)
		j := w.journaled()
		id := j.attested(t, `{}`)
		j.journalEnvelope(t, id, "01PROPOSAL0000000000000000", j.envelopes[id].JSON)
		r := w.run("journal", "verify", w.export())
		w.want(r, 8)
		if !strings.Contains(r.err, "that of another call") {
			t.Error(r.err)
		}
	})
	t.Run("another CA", func(t *testing.T) {
		w, other := newWorld(t), newWorld(t)
		w.journaled()
		other.journaled()
		keys := other.write("keys.json", other.run("attest", "keys", "-o", "json").out)
		mine := w.write("keys.json", w.run("attest", "keys", "-o", "json").out)
		path := w.export()
		w.want(w.run("journal", "verify", path, "--keys", keys), 8)
		w.want(w.run("journal", "verify", path, "--keys", mine), 0)
	})
}

// TestVerifyGatewayRemembers: after a check of the gateway, its key and CA are
// known for exports, and a journal that was rolled back or forked is noticed.
func TestVerifyGatewayRemembers(t *testing.T) {
	w := newWorld(t)
	signer := newSigner(t)
	j := newFakeJournal(t, w.ca, signer)
	j.events(t, 9)
	w.gateway.journal = j
	w.want(w.run("journal", "verify"), 0)
	if r := w.run("journal", "verify", w.export()); !strings.Contains(r.out, "known from an earlier check of this gateway") {
		t.Error(r.out)
	}
	j.events(t, 3)
	w.want(w.run("journal", "verify"), 0)

	shorter := newFakeJournal(t, w.ca, signer)
	shorter.events(t, 4)
	w.gateway.journal = shorter
	for _, args := range [][]string{{"journal", "verify"}, {"journal", "prove", "1"}} {
		r := w.run(args...)
		if r.code != 8 || !strings.Contains(r.err, "rolled back") {
			t.Errorf("%v after a rollback: exit code %d: %s", args, r.code, r.err)
		}
	}
	forked := newFakeJournal(t, w.ca, signer)
	forked.events(t, 20)
	w.gateway.journal = forked
	for _, args := range [][]string{{"journal", "verify"}, {"journal", "prove", "1"}} {
		r := w.run(args...)
		if r.code != 8 {
			t.Errorf("%v after a fork: exit code %d: %s", args, r.code, r.err)
		}
	}
	otherKey := newFakeJournal(t, w.ca, newSigner(t))
	otherKey.events(t, 20)
	w.gateway.journal = otherKey
	if r := w.run("journal", "prove", "1"); r.code != 8 || !strings.Contains(r.err, "another key than before") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	// The control: without a memory nothing of this is noticed.
	if err := os.RemoveAll(filepath.Join(w.home, "state", "palyra-cli")); err != nil {
		t.Fatal(err)
	}
	w.want(w.run("journal", "prove", "1"), 0)
}

func TestProve(t *testing.T) {
	w := newWorld(t)
	j := w.journaled()
	first := w.run("journal", "prove", "3")
	w.want(first, 0)
	if !strings.Contains(first.out, "first use") {
		t.Error(first.out)
	}
	j.events(t, 30)
	second := w.run("journal", "prove", "35")
	w.want(second, 0)
	if !strings.Contains(second.out, "that was seen before") {
		t.Error(second.out)
	}
	w.want(w.run("journal", "prove", "2", "-o", "json"), 0)
	w.want(w.run("journal", "prove", "999"), 1)
	w.want(w.run("journal", "prove", "x"), 2)
}

func TestJournalPages(t *testing.T) {
	w := newWorld(t)
	w.journaled()
	r := w.run("journal", "list", "-o", "name")
	w.want(r, 0)
	if r.out != "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n" {
		t.Errorf("%q", r.out)
	}
	if r := w.run("journal", "list", "--limit", "3", "-o", "name"); r.out != "1\n2\n3\n4\n" && r.out != "1\n2\n3\n" {
		t.Errorf("%q", r.out)
	}
	if r := w.run("journal", "list", "--code", "PAL-X"); strings.Count(r.out, "attested") != 2 {
		t.Error(r.out)
	}
	show := w.run("journal", "show", "6")
	w.want(show, 0)
	if !strings.Contains(show.out, "PAL-X100  attested") || !strings.Contains(show.out, `"envelope"`) {
		t.Error(show.out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	watch := newWatcher("\n9\n")
	go func() { <-watch.seen; cancel() }()
	tail := w.within(ctx, Streams{Out: watch}, "journal", "tail", "--after", "6", "-o", "name")
	w.want(tail, 0)
	_ = tail
}

func TestAttest(t *testing.T) {
	w := newWorld(t)
	j := w.journaled()
	id := j.attested(t, `{"text":"three"}`)
	show := w.run("attest", "show", id)
	w.want(show, 0)
	if !strings.Contains(show.out, "yes, signed by "+j.notary.KeySet().Keys[0].KeyID) {
		t.Error(show.out)
	}
	w.want(w.run("attest", "list"), 0)
	w.want(w.run("attest", "keys"), 0)
	keys := w.write("keys.json", w.run("attest", "keys", "-o", "json").out)
	if _, err := attest.ParseKeySet([]byte(w.run("attest", "keys", "-o", "json").out)); err != nil {
		t.Error(err)
	}
	envelope := w.write("envelope.json", w.run("attest", "show", id, "--envelope").out)
	document := w.write("document.json", w.run("attest", "show", id, "-o", "json").out)
	right, wrong := w.write("right", `{"text":"three"}`), w.write("wrong", `{"text":"four"}`)
	w.want(w.run("attest", "verify", envelope), 0)

	w.env["PALYRA_ADDRESS"] = closedAddress // from here on offline
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
		r := w.run(append([]string{"attest", "verify"}, c.args...)...)
		if r.code != c.code {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, r.code, c.code, r.err)
		}
	}
	data, err := os.ReadFile(envelope)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 41 {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		path := w.write("changed.json", string(changed))
		if r := w.run("attest", "verify", path, "--keys", keys); r.code != 8 {
			t.Errorf("byte %d: exit code %d", i, r.code)
		}
	}
}

// TestKeySetOfAnotherCA: a gateway cannot hand out a key set that leads to
// another CA than the one the bundle trusts.
func TestKeySetOfAnotherCA(t *testing.T) {
	w := newWorld(t)
	j := w.journaled()
	id := j.attested(t, `{}`)
	w.want(w.run("attest", "show", id), 0)
	j.notary = newNotary(t, newAuthority(t))
	r := w.run("attest", "show", id)
	w.want(r, 8)
	if !strings.Contains(r.err, "another CA than your credential bundle") {
		t.Error(r.err)
	}
	w.want(w.run("journal", "verify"), 8)
}

func TestExportFile(t *testing.T) {
	w := newWorld(t)
	w.journaled()
	path := w.export()
	if r := w.run("journal", "export", path); r.code != 2 {
		t.Errorf("an existing file was overwritten: %d", r.code)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if r := w.run("journal", "export"); r.code != 0 || !strings.HasPrefix(r.out, `{"after":0,`) {
		t.Errorf("%d %.80s", r.code, r.out)
	}
}
