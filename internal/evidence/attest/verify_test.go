package attest_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// pae returns the pre-authentication encoding. It follows the text of the DSSE protocol and
// does not use the library under test.
func pae(payloadType string, payload []byte) []byte {
	out := []byte("DSSEv1 ")
	out = append(out, strconv.Itoa(len(payloadType))...)
	out = append(out, ' ')
	out = append(out, payloadType...)
	out = append(out, ' ')
	out = append(out, strconv.Itoa(len(payload))...)
	out = append(out, ' ')
	return append(out, payload...)
}

// resigned signs a changed statement with the notary's own key, so that only the content of the
// statement can be refused.
func resigned(t *testing.T, n *attest.Notary, x attest.Execution, change func(*attest.Statement)) []byte {
	t.Helper()
	p, payload, _ := split(t, mustSign(t, n, x).JSON)
	var s attest.Statement
	must.Do(t, json.Unmarshal(payload, &s))
	change(&s)
	text := must.Get(canonical.Marshal(s))(t)
	return p.with(text, ed25519.Sign(seed('k'), pae(p.PayloadType, text)))
}

func chainOf(t *testing.T, set attest.KeySet) []*x509.Certificate {
	t.Helper()
	var chain []*x509.Certificate
	for _, text := range []string{set.Keys[0].CertificateChain, set.CARoot} {
		block, _ := pem.Decode([]byte(text))
		c := must.Get(x509.ParseCertificate(block.Bytes))(t)
		chain = append(chain, c)
	}
	return chain
}

func TestEveryFlippedByteIsFound(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	x := execution()
	// The statement is short, because each byte costs one verification.
	x.Report.Isolation, x.Executable, x.Operands, x.Report.Files = nil, tool.Executable{}, nil, nil
	env := mustSign(t, n, x)
	v, err := attest.NewVerifier(n.KeySet())
	must.Do(t, err)
	check := func(what string, i int, text []byte) {
		if _, err := v.Verify(text); err == nil {
			t.Errorf("%s: a flip of byte %d was not found", what, i)
		}
	}
	p, payload, signature := split(t, env.JSON)
	for i := range payload {
		flipped := slices.Clone(payload)
		flipped[i] ^= 1
		check("payload", i, p.with(flipped, signature))
	}
	for i := range signature {
		flipped := slices.Clone(signature)
		flipped[i] ^= 1 << (i % 8)
		check("signature", i, p.with(payload, flipped))
	}
	inside := strings.Index(string(env.JSON), p.Payload)
	for i := range env.JSON {
		if i > inside && i < inside+len(p.Payload)-8 && i%64 != 0 {
			continue // its bytes were flipped above
		}
		flipped := slices.Clone(env.JSON)
		flipped[i] ^= 0x20
		check("envelope", i, flipped)
	}
	for i := 0; i < len(env.JSON); i += 32 {
		check("truncated envelope", i, env.JSON[:i])
	}
	// Control: only the signature detects a change. The same change verifies if it is signed
	// again.
	forged := resigned(t, n, x, func(s *attest.Statement) { s.Predicate.Result.Outcome = "failed" })
	if _, err := v.Verify(forged); err != nil {
		t.Errorf("control: %v", err)
	}
	_, fp, _ := split(t, forged)
	_, err = v.Verify(p.with(fp, signature))
	refused(t, err, "signature does not match")
}

func TestStrictEnvelope(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	env := string(mustSign(t, n, execution()).JSON)
	p, payload, signature := split(t, []byte(env))
	two := p
	two.Signatures = append(slices.Clone(p.Signatures), p.Signatures[0])
	none := p
	none.Signatures = nil
	text := func(v parts) string {
		out := must.Get(json.Marshal(v))(t)
		return string(out)
	}
	url := p
	url.Payload = base64.RawURLEncoding.EncodeToString(payload)
	broken := p
	broken.Payload = p.Payload[:4] + "\n" + p.Payload[4:]
	otherType := p
	otherType.PayloadType = "application/json"
	otherType.Signatures = []sig{{p.Signatures[0].KeyID, base64.StdEncoding.EncodeToString(ed25519.Sign(seed('k'), pae("application/json", payload)))}}
	for name, c := range map[string]struct{ text, want string }{
		"unknown member":   {strings.Replace(env, `{"payload"`, `{"extra":1,"payload"`, 1), "extra"},
		"repeated member":  {strings.Replace(env, `{"payload"`, `{"payloadType":"x","payload"`, 1), "duplicate"},
		"other case":       {strings.Replace(env, `"payloadType"`, `"payloadtype"`, 1), "payloadtype"},
		"trailing text":    {env + "{}", "reading envelope"},
		"not JSON":         {"attestation", "reading envelope"},
		"two signatures":   {text(two), "2 signatures"},
		"no signature":     {text(none), "0 signatures"},
		"URL base64":       {text(url), "base64"},
		"line break":       {text(broken), "line breaks"},
		"payload type":     {text(otherType), `payload type is "application/json"`},
		"unknown key":      {strings.Replace(env, p.Signatures[0].KeyID, digest("0"), 1), "no key"},
		"short signature":  {string(p.with(payload, signature[:63])), "signature does not match"},
		"empty signature":  {string(p.with(payload, nil)), "signature does not match"},
		"another's claims": {string(p.with([]byte("{}"), signature)), "signature does not match"},
	} {
		_, err := attest.Verify([]byte(c.text), n.KeySet())
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		refused(t, err, c.want)
	}
	if _, err := attest.Verify([]byte(env), n.KeySet()); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestStrictStatement(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	for name, c := range map[string]struct {
		change func(*attest.Statement)
		want   string
	}{
		"statement type":  {func(s *attest.Statement) { s.Type = "https://in-toto.io/Statement/v0.1" }, "statement type"},
		"predicate type":  {func(s *attest.Statement) { s.PredicateType += "x" }, "predicate type"},
		"no subject":      {func(s *attest.Statement) { s.Subject = nil }, "no subject"},
		"digest length":   {func(s *attest.Statement) { s.Subject[0].Digest.SHA256 = "abc" }, "64 lower-case hex"},
		"digest case":     {func(s *attest.Statement) { s.Subject[1].Digest.SHA256 = strings.Repeat("C", 64) }, "64 lower-case hex"},
		"other subject":   {func(s *attest.Statement) { s.Subject[0].Digest.SHA256 = strings.Repeat("f", 64) }, "subject 0"},
		"missing file":    {func(s *attest.Statement) { s.Subject = s.Subject[:1] }, "1 subjects"},
		"other proposal":  {func(s *attest.Statement) { s.Subject[0].Name = attest.CallSubject + "X" }, "subject 0"},
		"result digest":   {func(s *attest.Statement) { s.Predicate.ExecutionSHA256 = strings.Repeat("0", 64) }, "differs from execution_sha256"},
		"attestation id":  {func(s *attest.Statement) { s.Predicate.AttestationID = "x" }, "not a ULID"},
		"no time":         {func(s *attest.Statement) { s.Predicate.Times.AttestedAt = time.Time{} }, "attested_at"},
		"another gateway": {func(s *attest.Statement) { s.Predicate.Gateway = "other.local" }, "of gateway"},
		"before validity": {func(s *attest.Statement) { s.Predicate.Times.AttestedAt = epoch.AddDate(-3, 0, 0) }, "valid from"},
		"after validity":  {func(s *attest.Statement) { s.Predicate.Times.AttestedAt = epoch.AddDate(3, 0, 0) }, "valid from"},
	} {
		_, err := attest.Verify(resigned(t, n, execution(), c.change), n.KeySet())
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		refused(t, err, c.want)
	}
	if _, err := attest.Verify(resigned(t, n, execution(), func(*attest.Statement) {}), n.KeySet()); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestUnknownPredicateMember(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	p, payload, _ := split(t, mustSign(t, n, execution()).JSON)
	for _, place := range []string{`"attestation_id"`, `"cap_eff"`, `"_type"`, `"workspace"`} {
		text := []byte(strings.Replace(string(payload), place, `"x_unknown":true,`+place, 1))
		_, err := attest.Verify(p.with(text, ed25519.Sign(seed('k'), pae(p.PayloadType, text))), n.KeySet())
		refused(t, err, "x_unknown")
	}
}

// TestChains signs with keys whose certificates are wrong in one way at a time. The key set is
// made by hand because a notary would refuse them.
func TestChains(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	good := newNotary(t, a)
	env := mustSign(t, good, execution())
	set := good.KeySet()
	with := func(chain []*x509.Certificate) attest.KeySet {
		s := set
		s.Keys = []attest.Key{set.Keys[0]}
		s.Keys[0].CertificateChain = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[0].Raw}))
		s.Keys[0].NotBefore, s.Keys[0].NotAfter = chain[0].NotBefore, chain[0].NotAfter
		return s
	}
	pub := seed('k').Public()
	for name, c := range map[string]struct {
		set  attest.KeySet
		want string
	}{
		"another root":     {with(newAuthority(t).chain(pub, nil)), "lead to the root"},
		"self-signed":      {with([]*x509.Certificate{sign(t, notaryTemplate(), notaryTemplate(), pub, seed('k'))}), "lead to the root"},
		"device":           {with(a.chain(pub, func(c *x509.Certificate) { c.URIs[0].Path = "/device/01JNA3Q0G0ATTESTAT10N00000" })), "name a notary"},
		"common name only": {with(a.chain(pub, func(c *x509.Certificate) { c.URIs = nil; c.Subject.CommonName = "spiffe://palyra.local/notary/1" })), "name a notary"},
		"two names": {with(a.chain(pub, func(c *x509.Certificate) {
			c.URIs = append(c.URIs, &url.URL{Scheme: "spiffe", Host: "x", Path: "/notary/2"})
		})), "name a notary"},
		"not https":         {with(a.chain(pub, func(c *x509.Certificate) { c.URIs[0].Scheme = "https" })), "name a notary"},
		"client only":       {with(a.chain(pub, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })), "lead to the root"},
		"no signing":        {with(a.chain(pub, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement })), "not for signatures"},
		"other gateway":     {with(a.chain(pub, func(c *x509.Certificate) { c.URIs[0].Host = "other.local" })), "certified for gateway"},
		"ended before":      {with(a.chain(pub, func(c *x509.Certificate) { c.NotAfter = epoch.Add(-time.Minute) })), "valid from"},
		"not begun":         {with(a.chain(pub, func(c *x509.Certificate) { c.NotBefore = epoch.Add(time.Minute) })), "valid from"},
		"another's key":     {with(a.chain(seed('o').Public(), nil)), "public_key"},
		"not an Ed25519":    {with(a.chain(p256(t), nil)), "algorithm"},
		"never with root":   {with(a.chain(pub, func(c *x509.Certificate) { c.NotBefore = epoch.AddDate(20, 0, 0); c.NotAfter = epoch.AddDate(21, 0, 0) })), "never valid together"},
		"no keys":           {attest.KeySet{CARoot: set.CARoot}, "no keys"},
		"no root":           {attest.KeySet{Keys: set.Keys}, "ca_root"},
		"leaf as root":      {attest.KeySet{Keys: set.Keys, CARoot: set.Keys[0].CertificateChain}, "self-signed root"},
		"key id":            {changed(set, func(k *attest.Key) { k.KeyID = digest("0") }), "key_id"},
		"validity":          {changed(set, func(k *attest.Key) { k.NotAfter = k.NotAfter.AddDate(1, 0, 0) }), "not_after"},
		"algorithm":         {changed(set, func(k *attest.Key) { k.Algorithm = "none" }), "algorithm"},
		"half retired":      {changed(set, func(k *attest.Key) { k.Retired = true }), "retired_at"},
		"not PEM":           {changed(set, func(k *attest.Key) { k.CertificateChain = "x" }), "certificate_chain"},
		"without its chain": {changed(set, func(k *attest.Key) { k.CertificateChain = "" }), "certificate_chain is empty"},
	} {
		_, err := attest.Verify(env.JSON, c.set)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		refused(t, err, c.want)
	}
	if _, err := attest.Verify(env.JSON, with(a.chain(pub, nil))); err != nil {
		t.Errorf("control: %v", err)
	}
}

func changed(set attest.KeySet, change func(*attest.Key)) attest.KeySet {
	set.Keys = slices.Clone(set.Keys)
	change(&set.Keys[0])
	return set
}

func p256(t *testing.T) crypto.PublicKey {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return key.Public()
}

// TestIntermediate verifies through an issuing certificate whose name
// constraints exclude another gateway.
func TestIntermediate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	issuing := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: epoch.AddDate(0, -2, 0), NotAfter: epoch.AddDate(0, 10, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedURIDomains: []string{gateway}, PermittedDNSDomainsCritical: true,
	}, a.cert, key.Public(), a.key)
	notary := seed('k')
	leaf := sign(t, notaryTemplate(), issuing, notary.Public(), key)
	n := must.Get(attest.NewNotary(attest.NotaryConfig{Signer: notary, Chain: []*x509.Certificate{leaf, issuing, a.cert}, Gateway: gateway, Now: at(epoch)}))(t)
	if _, err := attest.Verify(mustSign(t, n, execution()).JSON, n.KeySet()); err != nil {
		t.Error(err)
	}
	foreign := notaryTemplate()
	foreign.URIs[0].Host = "other.example"
	leaf = sign(t, foreign, issuing, notary.Public(), key)
	if _, err := attest.NewNotary(attest.NotaryConfig{Signer: notary, Chain: []*x509.Certificate{leaf, issuing, a.cert}, Gateway: "other.example", Now: at(epoch)}); err == nil {
		t.Error("a name outside the constraints was accepted")
	}
}

func FuzzVerify(f *testing.F) {
	n := newNotary(f, newAuthority(f))
	env := mustSign(f, n, execution())
	v := must.Get(attest.NewVerifier(n.KeySet()))(f)
	f.Add(env.JSON)
	f.Add([]byte(`{"payload":"","payloadType":"application/vnd.in-toto+json","signatures":[{"keyid":"","sig":""}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := v.Verify(text)
		if err != nil {
			return
		}
		// Any text that verifies contains the one signed statement.
		if got.Predicate.AttestationID != env.ID || got.Statement.Subject[0].Digest.SHA256 != strings.Repeat("2", 64) {
			t.Errorf("%q verifies", text)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	n := newNotary(b, newAuthority(b))
	x := execution()
	for b.Loop() {
		mustSign(b, n, x)
	}
}

func BenchmarkVerify(b *testing.B) {
	n := newNotary(b, newAuthority(b))
	env := mustSign(b, n, execution())
	v, err := attest.NewVerifier(n.KeySet())
	must.Do(b, err)
	for b.Loop() {
		if _, err := v.Verify(env.JSON); err != nil {
			b.Fatal(err)
		}
	}
}
