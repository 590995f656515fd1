package certificate

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/statedir/keyfile"
)

var start = time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)

const name = "palyra.example.com"

func rootOf(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(must.Get(os.ReadFile(filepath.Join(dir, RootFile)))(t))
	return must.Get(x509.ParseCertificate(block.Bytes))(t)
}

func TestOwnAuthority(t *testing.T) {
	t.Parallel()
	dir, now := filepath.Join(t.TempDir(), "console-ca"), start
	clock := func() time.Time { return now }
	get, made, err := ownAt(dir, []string{name}, clock)
	if err != nil || !made {
		t.Fatalf("made %t, %v", made, err)
	}
	root := rootOf(t, dir)
	if !root.PermittedDNSDomainsCritical || len(root.PermittedDNSDomains) != 1 || len(root.ExcludedIPRanges) != 2 {
		t.Errorf("the CA is not bound to its name: %v %v", root.PermittedDNSDomains, root.ExcludedIPRanges)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	verify := func(c *tls.Certificate, host string) error {
		_, err := must.Get(x509.ParseCertificate(c.Certificate[0]))(t).Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: now})
		return err
	}
	leaf := must.Get(get(nil))(t)
	must.Do(t, verify(leaf, name))
	// The CA is reused, and the leaf is renewed before it expires.
	again, made, err := ownAt(dir, []string{name}, clock)
	if err != nil || made {
		t.Fatalf("made %t, %v", made, err)
	}
	must.Do(t, verify(must.Get(again(nil))(t), name))
	now = start.Add(61 * 24 * time.Hour)
	if later := must.Get(get(nil))(t); later == leaf || verify(later, name) != nil {
		t.Error("the leaf was not made anew before its end")
	}
	// Another name requires another CA.
	if _, made, err = ownAt(dir, []string{"other.example.com"}, clock); err != nil || !made {
		t.Errorf("made %t, %v", made, err)
	}
}

// Browsers refuse certificates that the CA signs for other names. Control: its own name.
func TestConstraints(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "console-ca")
	_, _, err := ownAt(dir, []string{name}, func() time.Time { return start })
	must.Do(t, err)
	stolen := &own{names: []string{name}, now: func() time.Time { return start }}
	must.Do(t, stolen.read(dir))
	pool := x509.NewCertPool()
	pool.AddCert(stolen.root)
	for host, ok := range map[string]bool{name: true, "bank.example.org": false, "example.com": false} {
		stolen.names, stolen.leaf = []string{host}, nil
		c := must.Get(stolen.get(nil))(t)
		_, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: start})
		if (err == nil) != ok {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(host string, at time.Time) {
		get, _, err := ownAt(filepath.Join(t.TempDir(), "ca"), []string{host}, time.Now)
		must.Do(t, err)
		c := must.Get(get(nil))(t)
		must.Do(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o600))
		must.Do(t, os.WriteFile(key, must.Get(keyfile.KeyText(c.PrivateKey.(crypto.Signer)))(t), 0o600))
		must.Do(t, os.Chtimes(cert, at, at))
	}
	write("one.example.com", start)
	var failures int
	now := start
	f := &files{certificate: cert, key: key, now: func() time.Time { return now }, failed: func(error) { failures++ }, looked: start}
	must.Do(t, f.load())
	host := func() string {
		return must.Get(x509.ParseCertificate(must.Get(f.get(nil))(t).Certificate[0]))(t).DNSNames[0]
	}
	if host() != "one.example.com" {
		t.Fatal("the first certificate is another")
	}
	write("two.example.com", start.Add(time.Hour))
	if host() != "one.example.com" {
		t.Error("the files are looked at with each handshake")
	}
	if now = now.Add(lookInterval); host() != "two.example.com" {
		t.Error("the new certificate is not shown")
	}
	// A broken file is reported and changes nothing.
	must.Do(t, os.WriteFile(cert, []byte("no certificate"), 0o600))
	if now = now.Add(lookInterval); host() != "two.example.com" || failures != 1 {
		t.Errorf("%s, %d failures", host(), failures)
	}
	if _, err := Files(cert, key, nil); err == nil {
		t.Error("a broken file was taken at the start")
	}
}
