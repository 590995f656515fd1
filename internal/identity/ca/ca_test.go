package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity/ca/catest"
)

func TestOpenMakesAndReads(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "ca")
	c := newClock()
	a, created, err := Open(dir, Options{Now: c.Now})
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	b, created, err := Open(dir, Options{Now: c.Now})
	if err != nil || created {
		t.Fatalf("created %v, %v", created, err)
	}
	if !a.Root().Equal(b.Root()) || a.Journal.Signer() != b.Journal.Signer() || !a.Notary.Key().Chain[0].Equal(b.Notary.Key().Chain[0]) {
		t.Error("the second start does not find what the first made")
	}
	if _, err := os.Stat(dir + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the first start is left: %v", err)
	}
	if runtime.GOOS != "windows" {
		modes(t, dir)
	}
}

func modes(t *testing.T, dir string) {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	root, issuing := a.Root(), a.Issuing.current.cert
	for name, cert := range map[string]*x509.Certificate{"root": root, "issuing": issuing} {
		key, ok := cert.PublicKey.(*ecdsa.PublicKey)
		if !ok || key.Curve != elliptic.P256() || !cert.IsCA {
			t.Errorf("%s: %T, CA %v", name, cert.PublicKey, cert.IsCA)
		}
	}
	if life := root.NotAfter.Sub(c.Now()); life != RootLife || root.MaxPathLen != 1 {
		t.Errorf("root: %s, path length %d", life, root.MaxPathLen)
	}
	if life := issuing.NotAfter.Sub(c.Now()); life != IssuingLife || !issuing.MaxPathLenZero {
		t.Errorf("issuing: %s", life)
	}
	if len(issuing.PermittedURIDomains) != 1 || issuing.PermittedURIDomains[0] != "palyra.local" || !issuing.PermittedDNSDomainsCritical {
		t.Errorf("name constraints %v", issuing.PermittedURIDomains)
	}
	leaf := device(t, a).Leaf
	if life := leaf.NotAfter.Sub(c.Now()); life != LeafLife {
		t.Errorf("leaf: %s", life)
	}
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != "spiffe://palyra.local/device/"+deviceID || leaf.Subject.CommonName != "" {
		t.Errorf("names %v, CN %q", leaf.URIs, leaf.Subject.CommonName)
	}
	if id, err := a.VerifyDevice([]*x509.Certificate{leaf, issuing}); err != nil || id != deviceID {
		t.Errorf("VerifyDevice: %q, %v", id, err)
	}
}

// TestOpenRefuses damages an authority in one way at a time. A damaged authority must never be
// replaced by a new one.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	c := newClock()
	made := func() string {
		dir := filepath.Join(t.TempDir(), "ca")
		open(t, dir, Options{Now: c.Now})
		return dir
	}
	for _, name := range []string{rootFile, issuingFile, notaryFile, notaryPastFile, journalFile} {
		dir := made()
		must.Do(t, os.Remove(filepath.Join(dir, name)))
		if _, _, err := Open(dir, Options{Now: c.Now}); err == nil {
			t.Errorf("without %s: opened", name)
		}
		dir = made()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("damaged"), 0o600))
		_, _, err := Open(dir, Options{Now: c.Now})
		reasontest.Want(t, "damaged "+name, err, reason.ConfigInvalid)
	}
	dir := made()
	_, _, err := Open(dir, Options{Now: c.Now, TrustDomain: "other.local"})
	reasontest.Want(t, "another trust domain", err, reason.ConfigInvalid)
	late := newClock()
	late.Add(RootLife + time.Hour)
	_, _, err = Open(dir, Options{Now: late.Now})
	reasontest.Want(t, "root ran out", err, reason.ConfigInvalid)
	for _, domain := range []string{"UPPER.local", "a b", "127.0.0.1", "-a", "a..b", strings.Repeat("a", 64)} {
		_, _, err = Open(filepath.Join(t.TempDir(), "ca"), Options{TrustDomain: domain})
		reasontest.Want(t, "trust domain "+domain, err, reason.ConfigInvalid)
	}
	_, _, err = Open(filepath.Join(t.TempDir(), "ca"), Options{ServerHosts: []string{"a/b"}})
	reasontest.Want(t, "server host", err, reason.ConfigInvalid)

	// The keys of one authority are combined with the certificates of another.
	foreign := made()
	for _, name := range []string{issuingFile, notaryFile} {
		dir := made()
		data, err := os.ReadFile(filepath.Join(foreign, name))
		must.Do(t, err)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		_, _, err = Open(dir, Options{Now: c.Now})
		reasontest.Want(t, "foreign "+name, err, reason.ConfigInvalid)
	}
	if _, _, err := Open(made(), Options{Now: c.Now}); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestOpenRefusesWideModes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no mode bits")
	}
	dir := filepath.Join(t.TempDir(), "ca")
	open(t, dir, Options{})
	for _, c := range []struct {
		path string
		mode fs.FileMode
		want string
	}{
		{dir, 0o750, "chmod 700"}, {dir, 0o701, "chmod 700"},
		{filepath.Join(dir, rootFile), 0o640, "chmod 600"}, {filepath.Join(dir, notaryFile), 0o604, "chmod 600"},
		{filepath.Join(dir, journalFile), 0o620, "chmod 600"},
	} {
		info, err := os.Stat(c.path)
		must.Do(t, err)
		must.Do(t, os.Chmod(c.path, c.mode))
		_, _, err = Open(dir, Options{})
		var e *reason.Error
		if !errors.As(err, &e) || e.Code != reason.ConfigInvalid || !strings.Contains(e.NextStep(), c.want) {
			t.Errorf("%s with %o: got %v", c.path, c.mode, err)
		}
		must.Do(t, os.Chmod(c.path, info.Mode()))
	}
	open(t, dir, Options{})
}

func TestInterruptedFirstStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ca")
	// A first start was killed here; another process had created the empty directory.
	for _, d := range []string{dir, dir + ".new"} {
		must.Do(t, os.Mkdir(d, 0o700))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir+".new", rootFile), []byte("half"), 0o600))
	if _, created, err := Open(dir, Options{}); err != nil || !created {
		t.Errorf("created %v, %v", created, err)
	}
}

// leaveCopies creates the files that remain if writes are killed before their renames.
func leaveCopies(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{issuingFile, notaryFile, journalFile} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "."+name+".1234"), must.Get(os.ReadFile(filepath.Join(dir, name)))(t), 0o600))
	}
}

// A start removes the files of killed writes, which may contain a current key.
func TestLeftoversAreSwept(t *testing.T) {
	t.Parallel()
	a, _ := newAuthorityAt(t)
	leaveCopies(t, a.keys.dir)
	if _, created, err := Open(a.keys.dir, Options{}); err != nil || created {
		t.Fatalf("created %v, %v", created, err)
	}
	if left := must.Get(filepath.Glob(filepath.Join(a.keys.dir, ".*")))(t); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}

func TestMaintainRenews(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	old, notary := a.Issuing.current.cert, a.Notary.Key()
	before := device(t, a)
	if err := a.Maintain(); err != nil || !a.Issuing.current.cert.Equal(old) {
		t.Errorf("renewed too early: %v", err)
	}
	c.Add(IssuingLife * 2 / 3)
	after := device(t, a) // issuing renews it without Maintain
	if a.Issuing.current.cert.Equal(old) {
		t.Error("the issuing certificate was not renewed")
	}
	must.Do(t, a.Maintain())
	if n := a.Notary.Key(); n.Chain[0].Equal(notary.Chain[0]) || string(n.Chain[0].RawSubjectPublicKeyInfo) != string(notary.Chain[0].RawSubjectPublicKeyInfo) {
		t.Error("the notary's certificate was not renewed for the same key")
	}
	if past := a.Notary.Past(); len(past) != 1 || !past[0].RetiredAt.IsZero() || past[0].Signer != nil {
		t.Errorf("past %+v", past)
	}
	b := open(t, a.keys.dir, Options{Now: c.Now})
	if len(b.Notary.Past()) != 1 || !b.Issuing.current.cert.Equal(a.Issuing.current.cert) {
		t.Error("the renewal was not kept")
	}
	if _, err := a.VerifyDevice(chain(t, after)); err != nil {
		t.Error(err)
	}
	_, err := a.VerifyDevice(chain(t, before))
	reasontest.Want(t, "a device of months ago", err, reason.Unauthenticated)
}

func TestHostsChangeTheConstraints(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	if _, err := a.IssueServer([]string{"localhost", "127.0.0.9", "::1"}); err != nil {
		t.Error(err)
	}
	_, err := a.IssueServer([]string{"gateway.example"})
	reasontest.Want(t, "unconfigured host", err, reason.ConfigInvalid)
	b := open(t, a.keys.dir, Options{Now: c.Now, ServerHosts: []string{"gateway.example", "192.0.2.7", "2001:db8::7"}})
	cert := must.Get(b.IssueServer([]string{"gateway.example", "192.0.2.7", "2001:db8::7"}))(t)
	if _, s, cl := catest.Handshake(t, serverOf(t, b, []string{"gateway.example"}), named(client(b, c.Now, nil), "gateway.example")); s != nil || cl != nil {
		t.Errorf("handshake: %v, %v", s, cl)
	}
	if cert.Leaf.DNSNames[0] != "gateway.example" || len(cert.Leaf.IPAddresses) != 2 {
		t.Errorf("names %v %v", cert.Leaf.DNSNames, cert.Leaf.IPAddresses)
	}
}

func TestNotaryRotation(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	old := a.Notary.Key()
	next := must.Get(a.Notary.Rotate())(t)
	past := a.Notary.Past()
	if next.Chain[0].Equal(old.Chain[0]) || len(past) != 1 || !past[0].Chain[0].Equal(old.Chain[0]) || past[0].RetiredAt.Before(c.Now()) {
		t.Errorf("past %+v", past)
	}
	b := open(t, a.keys.dir, Options{Now: c.Now})
	if !b.Notary.Key().Chain[0].Equal(next.Chain[0]) || len(b.Notary.Past()) != 1 || b.Notary.Past()[0].RetiredAt.IsZero() {
		t.Error("the rotation was not kept")
	}

	// A crash happened between the two writes of a rotation, so the list of past keys already
	// contains the current certificate.
	must.Do(t, writePast(b.keys.dir, append(b.Notary.Past(), NotaryKey{Chain: next.Chain, RetiredAt: c.Now()})))
	d := open(t, a.keys.dir, Options{Now: c.Now})
	if len(d.Notary.Past()) != 1 || !d.Notary.Key().Chain[0].Equal(next.Chain[0]) {
		t.Errorf("after the crash: %d past", len(d.Notary.Past()))
	}
}

func TestJournalKeys(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	sign := func(a *Authority) []byte {
		s := must.Get(note.NewSigner(a.Journal.Signer()))(t)
		return must.Get(note.Sign(&note.Note{Text: "palyra.local/journal\n1\n"}, s))(t)
	}
	old := sign(a)
	if _, _, err := a.Journal.Next(); err != nil {
		t.Fatal(err)
	}
	must.Do(t, a.Journal.Adopt(7))
	for name, a := range map[string]*Authority{"same": a, "again": open(t, a.keys.dir, Options{Now: c.Now})} {
		var known []note.Verifier
		for _, text := range a.Journal.Verifiers() {
			v := must.Get(note.NewVerifier(text))(t)
			known = append(known, v)
		}
		if len(known) != 2 {
			t.Fatalf("%s: %d keys", name, len(known))
		}
		for _, msg := range [][]byte{old, sign(a)} {
			if _, err := note.Open(msg, note.VerifierList(known...)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestTrustDomain: a new gateway's name is derived from its root's key. A gateway keeps its
// name even if the default was different when it was created, and cannot be opened under
// another name.
func TestTrustDomain(t *testing.T) {
	t.Parallel()
	first, second := filepath.Join(t.TempDir(), "ca"), filepath.Join(t.TempDir(), "ca")
	a, b := open(t, first, Options{}), open(t, second, Options{})
	if a.TrustDomain() == b.TrustDomain() {
		t.Errorf("two gateways are named %s", a.TrustDomain())
	}
	digest := sha256.Sum256(must.Get(x509.MarshalPKIXPublicKey(a.Root().PublicKey))(t))
	if want := fmt.Sprintf("palyra-%x.internal", digest[:8]); a.TrustDomain() != want || a.Root().Subject.CommonName != "Palyra root "+want {
		t.Errorf("%s (%s), want %s", a.TrustDomain(), a.Root().Subject.CommonName, want)
	}
	for name, again := range map[string]*Authority{"opened": open(t, first, Options{}), "inspected": must.Get(Inspect(first, Options{}))(t)} {
		if again.TrustDomain() != a.TrustDomain() {
			t.Errorf("%s again it is %s", name, again.TrustDomain())
		}
	}
	if _, _, err := Open(first, Options{TrustDomain: "palyra.internal"}); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("under another name: %v", err)
	}
	old := filepath.Join(t.TempDir(), "ca")
	open(t, old, Options{TrustDomain: "palyra.internal"})
	for _, configured := range []string{"", "palyra.internal"} {
		if got := open(t, old, Options{TrustDomain: configured}).TrustDomain(); got != "palyra.internal" {
			t.Errorf("the gateway of an older release is named %s", got)
		}
	}
}
