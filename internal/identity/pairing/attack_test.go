package pairing

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity/ca/catest"
	"palyra/internal/identity/pairing/spake2plus"
)

// relay runs an exchange through a man in the middle who forwards every message unchanged. near
// is the candidate's connection, far the gateway's.
func relay(g *gateway, near, far wire, made Made) (*Candidate, error) {
	c := newCandidate(g.t)
	return c, exchange(g, c, wire{server: far.server, client: near.client}, made.ID, made.Secret)
}

// TestManInTheMiddle: a proxy terminates TLS on both sides and forwards everything. It even has
// the gateway's own certificate and key, so that only the connection differs. Control: if the
// exporter is not bound, the proxy succeeds.
func TestManInTheMiddle(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	near, far := connect(t, g.leaf), connect(t, g.leaf)
	if bytes.Equal(near.client.Exporter, far.client.Exporter) {
		t.Fatal("two connections export the same")
	}
	_, err := relay(g, near, far, g.code(PIN))
	reasontest.Want(t, "the error", err, reason.PairingFailed)
	if len(g.asked) != 0 {
		t.Errorf("people were asked %v", g.asked)
	}
	same := bytes.Repeat([]byte{1}, exporterSize)
	near.client.Exporter, far.server.Exporter, far.server.Address = same, same, "192.0.2.9"
	if _, err := relay(g, near, far, g.code(PIN)); err != nil {
		t.Errorf("the control fails, so that the test shows nothing: %v", err)
	}
}

// TestManInTheMiddleWithACertificateOfItsOwn: the candidate detects the foreign certificate
// before it sends anything derived from the secret.
func TestManInTheMiddleWithACertificateOfItsOwn(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	other := catest.Lasting(t)
	local := &x509.Certificate{DNSNames: []string{"localhost"}}
	for name, leaf := range map[string]tls.Certificate{
		"of another CA":       other.Issue(t, local),
		"another of the same": g.ca.Issue(t, &x509.Certificate{DNSNames: []string{"localhost"}}),
		"for another name":    g.ca.Issue(t, &x509.Certificate{DNSNames: []string{"elsewhere"}}),
	} {
		t.Run(name, func(t *testing.T) {
			made := g.code(PIN)
			_, err := relay(g, connect(t, leaf), connect(t, g.leaf), made)
			reasontest.Want(t, "the error", err, reason.VerificationFailed)
			if c := g.codes[made.ID]; c.Guesses != 0 {
				t.Errorf("a guess was spent: %+v", c.Code)
			}
		})
	}
	// If the proxy sends its own offer, the exchange detects it; with a QR code, the candidate
	// detects it at once.
	for kind, want := range map[Kind]reason.Code{PIN: reason.PairingFailed, QR: reason.VerificationFailed} {
		made := g.code(kind)
		leaf := other.Issue(t, &x509.Certificate{DNSNames: []string{"localhost"}})
		near, far := connect(t, leaf), connect(t, g.leaf)
		o := must.Get(g.Begin(made.ID))(t)
		pin := sha256.Sum256(g.ca.Cert.Raw)
		o.CA, o.ServerKey = other.Cert.Raw, must.Get(KeySHA256(leaf.Leaf.PublicKey))(t)
		if kind == QR {
			_, err := Trust(o, near.client, pin[:])
			reasontest.Want(t, "the error", err, want)
			continue
		}
		must.Get(Trust(o, near.client, nil))(t)
		c := newCandidate(t)
		p := must.Get(c.Prove(made.Secret, "", o, near.client))(t)
		_, err := c.Finish(must.Get(g.Prove(far.server, p))(t))
		reasontest.Want(t, "the error", err, want)
	}
}

// TestEachFieldIsBound changes one field that the candidate sees, in turn.
func TestEachFieldIsBound(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for name, change := range map[string]func(o *Offer, p *Proof){
		"device id":  func(o *Offer, _ *Proof) { o.DeviceID = "01J00000000000000000000000" },
		"kind":       func(o *Offer, _ *Proof) { o.Kind = QR },
		"server key": func(o *Offer, _ *Proof) { o.ServerKey = make([]byte, 32) },
		"CA":         func(o *Offer, _ *Proof) { o.CA = append(slices.Clone(o.CA), 0) },
		"salt":       func(o *Offer, _ *Proof) { o.Salt = make([]byte, spake2plus.SaltSize) },
		"name":       func(_ *Offer, p *Proof) { p.Name = "another" },
		"commitment": func(_ *Offer, p *Proof) { p.Commitment = make([]byte, commitmentSize) },
		"request":    func(_ *Offer, p *Proof) { p.Request = newCandidate(t).request },
		"nothing":    func(*Offer, *Proof) {},
	} {
		t.Run(name, func(t *testing.T) {
			made, w, c := g.code(PIN), connect(t, g.leaf), newCandidate(t)
			w.server.Address = name
			o := must.Get(g.Begin(made.ID))(t)
			var p Proof
			change(&o, &p)
			p = must.Get(c.Prove(made.Secret, "laptop", o, w.client))(t)
			change(&o, &p)
			_, err := c.Finish(must.Get(g.Prove(w.server, p))(t))
			if name == "nothing" {
				must.Do(t, err)
				return
			}
			reasontest.Want(t, "the error", err, reason.PairingFailed)
			must.Get(g.Cancel(t.Context(), made.For.MadeBy, true, made.ID))(t)
		})
	}
}

// TestFakeCandidate sends an invalid share, the gateway's share, and values from earlier
// messages.
func TestFakeCandidate(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made, w := g.code(PIN), connect(t, g.leaf)
	o := must.Get(g.Begin(made.ID))(t)
	good := must.Get(newCandidate(t).Prove("00000000", "", o, w.client))(t)
	identity65, lowOrder := make([]byte, 65), make([]byte, 65)
	identity65[0], lowOrder[0], lowOrder[32] = 4, 4, 2
	for name, share := range map[string][]byte{"nothing": nil, "the identity": {0}, "the identity, 65 bytes": identity65, "a point of order two on another curve": lowOrder} {
		p := good
		p.Share = share
		w.server.Address = name
		_, err := g.Prove(w.server, p)
		reasontest.Want(t, "the error", err, reason.PairingFailed)
	}
	if c := g.codes[made.ID]; c.Guesses != 4 || len(g.attempts) != 0 {
		t.Errorf("%d guesses are counted, want 4, and %d attempts kept", c.Guesses, len(g.attempts))
	}
	// The candidate sends back the gateway's own share and confirmation.
	a := must.Get(g.Prove(Connection{Exporter: w.server.Exporter, Address: "x"}, good))(t)
	err := g.Confirm(t.Context(), w.server, Confirmation{Attempt: a.Attempt, Confirmation: a.Confirmation, Nonce: make([]byte, nonceSize)})
	reasontest.Want(t, "the error", err, reason.PairingFailed)
	if len(g.asked) != 0 {
		t.Errorf("people were asked %v", g.asked)
	}
}

// TestFakeGateway reflects messages, and answers without the secret. The candidate sends
// nothing after that.
func TestFakeGateway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made, w := g.code(PIN), connect(t, g.leaf)
	o := must.Get(g.Begin(made.ID))(t)
	other := newCandidate(t)
	otherShare := must.Get(other.Prove(wrong(made.Secret), "", o, w.client))(t).Share
	for name, answer := range map[string]func(p Proof) Answer{
		"its own share":   func(p Proof) Answer { return Answer{Share: p.Share, Confirmation: make([]byte, 32)} },
		"its own words":   func(p Proof) Answer { return Answer{Share: p.Share, Confirmation: p.Commitment} },
		"another's share": func(Proof) Answer { return Answer{Share: otherShare, Confirmation: make([]byte, 32)} },
		"the identity":    func(Proof) Answer { return Answer{Share: []byte{0}, Confirmation: make([]byte, 32)} },
		"no share":        func(Proof) Answer { return Answer{} },
		"the gateway's old": func(p Proof) Answer {
			a, _ := g.Prove(w.server, Proof{Code: p.Code, Share: otherShare, Commitment: p.Commitment, Request: p.Request})
			return a
		},
	} {
		c := newCandidate(t)
		p := must.Get(c.Prove(made.Secret, "", o, w.client))(t)
		confirmation, err := c.Finish(answer(p))
		reasontest.Want(t, "the error", err, reason.PairingFailed)
		if confirmation.Confirmation != nil || confirmation.Nonce != nil || c.Comparison() != "" {
			t.Errorf("%s: the candidate goes on with %+v", name, confirmation)
		}
	}
}

// TestReplay repeats a successful exchange: on its connection, on another one, and only its
// last message.
func TestReplay(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made, w, c := g.code(PIN), connect(t, g.leaf), newCandidate(t)
	o := must.Get(g.Begin(made.ID))(t)
	p := must.Get(c.Prove(made.Secret, "", o, w.client))(t)
	a := must.Get(g.Prove(w.server, p))(t)
	confirmation := must.Get(c.Finish(a))(t)

	other := connect(t, g.leaf)
	other.server.Address = "192.0.2.66"
	reasontest.Want(t, "the error", g.Confirm(t.Context(), other.server, confirmation), reason.PairingFailed) // and the attempt has ended
	reasontest.Want(t, "the error", g.Confirm(t.Context(), w.server, confirmation), reason.PairingFailed)
	again := must.Get(g.Prove(other.server, p))(t)
	confirmation.Attempt = again.Attempt
	reasontest.Want(t, "the error", g.Confirm(t.Context(), other.server, confirmation), reason.PairingFailed)

	must.Do(t, exchange(g, newCandidate(t), w, made.ID, made.Secret))
	reasontest.Want(t, "the error", g.Confirm(t.Context(), w.server, confirmation), reason.PairingFailed)
	if len(g.asked) != 1 {
		t.Errorf("people were asked %d times", len(g.asked))
	}
}

// TestOneCandidateWins: two candidates have the secret and an answer. The first one to confirm
// causes the approval request, and the other is refused.
func TestOneCandidateWins(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made := g.code(PIN)
	o := must.Get(g.Begin(made.ID))(t)
	w := connect(t, g.leaf)
	var last []Confirmation
	candidates := []*Candidate{newCandidate(t), newCandidate(t)}
	for _, c := range candidates {
		p := must.Get(c.Prove(made.Secret, "", o, w.client))(t)
		last = append(last, must.Get(c.Finish(must.Get(g.Prove(w.server, p))(t)))(t))
	}
	must.Do(t, g.Confirm(t.Context(), w.server, last[1]))
	if err := g.Confirm(t.Context(), w.server, last[0]); reason.Of(err) == "" || len(g.asked) != 1 || g.asked[0].KeySHA256 != fingerprint(t, candidates[1]) {
		t.Errorf("the second gets %v; people are asked %+v", err, g.asked)
	}
	g.allow("ann")
	if _, err := collect(g, candidates[0], w); err == nil {
		t.Error("the second gets a certificate")
	}
}

// TestCollectTakesTheKey: another party's certificate request, which crossed the wire, and a
// signature for another connection are refused.
func TestCollectTakesTheKey(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made, w, c := g.code(PIN), connect(t, g.leaf), newCandidate(t)
	must.Do(t, exchange(g, c, w, made.ID, made.Secret))
	g.allow("ann")
	msg := must.Get(c.Collection(w.client.Exporter))(t)
	_, err := g.Collect(t.Context(), connect(t, g.leaf).server, msg)
	reasontest.Want(t, "the error", err, reason.PairingFailed)
	stolen := must.Get(newCandidate(t).Collection(w.client.Exporter))(t)
	stolen.Request = c.request
	_, err = g.Collect(t.Context(), w.server, stolen)
	reasontest.Want(t, "the error", err, reason.PairingFailed)
	if len(g.paired) != 0 {
		t.Errorf("devices %v", g.paired)
	}
	must.Get(g.Collect(t.Context(), w.server, msg))(t) // control
}

// TestRecordedTranscript records all messages of a failed pairing in the clear, as a man in the
// middle has them. It tests candidate PINs with them: as a new prover and a new verifier in
// every role, and with the messages of a careless protocol. No result distinguishes the right
// PIN. Control: with a salted hash of the PIN in the messages, the search succeeds.
func TestRecordedTranscript(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made, w, c := g.code(PIN), connect(t, g.leaf), newCandidate(t)
	o := must.Get(g.Begin(made.ID))(t)
	told := wrong(made.Secret)
	p := must.Get(c.Prove(told, "", o, w.client))(t)
	a := must.Get(g.Prove(w.server, p))(t)
	_, err := c.Finish(a)
	reasontest.Want(t, "the error", err, reason.PairingFailed)

	candidates := []string{made.Secret, told}
	for i := range 10 {
		candidates = append(candidates, fmt.Sprintf("%08d", i))
	}
	crossed := [][]byte{o.Salt, o.CA, o.ServerKey, []byte(o.DeviceID), p.Share, p.Commitment, p.Request, a.Attempt, a.Share, a.Confirmation}
	distinguished := func(test func(pin string) bool) (found []string) {
		for _, pin := range candidates {
			if test(pin) {
				found = append(found, pin)
			}
		}
		return found
	}
	context := must.Get(g.attempts[string(a.Attempt)].bound.context())(t)
	if found := distinguished(func(pin string) bool { return replayed(t, pin, o, p, a, context) }); found != nil {
		t.Errorf("a recorded transcript gives away %q", found)
	}
	hashed := func(pin string) []byte { sum := sha256.Sum256(append(bytes.Clone(o.Salt), pin...)); return sum[:] }
	plain := func(messages [][]byte) []string {
		return distinguished(func(pin string) bool {
			return slices.ContainsFunc(messages, func(m []byte) bool { return bytes.Contains(m, hashed(pin)) || bytes.Contains(m, []byte(pin)) })
		})
	}
	if found := plain(crossed); found != nil {
		t.Errorf("the transcript holds %q", found)
	}
	if found := plain(append(crossed, hashed(made.Secret))); !slices.Equal(found, []string{made.Secret}) {
		t.Errorf("the control finds %q; the test shows nothing", found)
	}
}

// replayed tests one PIN with recorded messages. It reports whether a side that has the PIN and
// all messages accepts any of them. It does not have the scalars that the sides drew.
func replayed(t *testing.T, pin string, o Offer, p Proof, a Answer, context spake2plus.Context) bool {
	t.Helper()
	secret := must.Get(spake2plus.Derive([]byte(pin), o.Salt, identities))(t)
	for _, share := range [][]byte{a.Share, p.Share} {
		for _, confirmation := range [][]byte{a.Confirmation, p.Commitment} {
			if _, _, err := must.Get(spake2plus.NewProver(secret, context))(t).Finish(share, confirmation); err == nil {
				return true
			}
		}
		v, err := spake2plus.NewVerifier(must.Get(secret.Record())(t), context, share)
		if err != nil {
			return true // an accepted share would be a result
		}
		if _, confirmation := v.Answer(); bytes.Equal(confirmation, a.Confirmation) {
			return true
		}
		if _, err := v.Finish(a.Confirmation); err == nil {
			return true
		}
	}
	return false
}

// TestComparisonIsCommitted: a man in the middle who has the secret must fix its nonce before
// it sees the gateway's share. Control: without the commitment, it finds a nonce for which both
// sides display the same digits.
func TestComparisonIsCommitted(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made, w, c := g.code(PIN), connect(t, g.leaf), newCandidate(t)
	o := must.Get(g.Begin(made.ID))(t)
	p := must.Get(c.Prove(made.Secret, "", o, w.client))(t)
	a := must.Get(g.Prove(w.server, p))(t)
	confirmation, key, err := c.prover.Finish(a.Share, a.Confirmation)
	must.Do(t, err)
	// Comparing three of the six digits keeps the search short.
	var ground []byte
	for i := 0; ground == nil; i++ {
		nonce := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, nonceSize/2)
		if digits := must.Get(comparison(key, nonce))(t); digits[:3] == "123" {
			ground = nonce
		}
	}
	reasontest.Want(t, "the error", g.Confirm(t.Context(), w.server, Confirmation{Attempt: a.Attempt, Confirmation: confirmation, Nonce: ground}), reason.PairingFailed)
	if len(g.asked) != 0 {
		t.Errorf("people were asked %+v", g.asked)
	}
}

// TestForgottenFieldIsAnError: an empty field in a context is an error.
func TestForgottenFieldIsAnError(t *testing.T) {
	t.Parallel()
	full := bound{[]byte{1}, []byte{1}, []byte{1}, []byte{1}, "d", "c", PIN, "", []byte{1}}
	must.Get(full.context())(t)
	for i, empty := range []func(*bound){
		func(b *bound) { b.exporter = nil }, func(b *bound) { b.deviceKey = nil }, func(b *bound) { b.serverKey = nil }, func(b *bound) { b.ca = nil },
		func(b *bound) { b.deviceID = "" }, func(b *bound) { b.code = "" }, func(b *bound) { b.kind = "" }, func(b *bound) { b.commitment = nil },
	} {
		b := full
		empty(&b)
		if _, err := b.context(); err == nil {
			t.Errorf("field %d may be forgotten", i)
		}
	}
}
