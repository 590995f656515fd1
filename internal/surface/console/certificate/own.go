package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

const (
	authorityLife = 5 * 365 * 24 * time.Hour
	// leafLife is below the maximum of browsers. A leaf is reissued, in memory, when only
	// renewBefore of its validity is left.
	leafLife, renewBefore = 90 * 24 * time.Hour, 30 * 24 * time.Hour
	// skew allows for clocks that are behind.
	skew = time.Hour
)

// The files of the CA in its directory.
const (
	RootFile = "ca.pem"
	keyFile  = "ca.key"
)

// own is the CA with the last issued leaf.
type own struct {
	root  *x509.Certificate
	key   crypto.Signer
	names []string
	now   func() time.Time

	mu   sync.Mutex
	leaf *tls.Certificate
}

// Own returns certificates of a CA in a directory. The CA is created if it does not exist, and
// replaced if it does not cover the names or is about to expire. made is true in both cases:
// browsers must then trust the new CA. A critical name constraint (RFC 5280, section 4.2.1.10)
// limits the CA to these names.
func Own(dir string, names []string) (source Source, made bool, err error) {
	return ownAt(dir, names, time.Now)
}

func ownAt(dir string, names []string, now func() time.Time) (Source, bool, error) {
	if len(names) == 0 {
		return nil, false, errors.New("a CA of the console needs a name")
	}
	o := &own{names: names, now: now}
	err := o.read(dir)
	made := errors.Is(err, fs.ErrNotExist) || err == nil && !o.covers()
	if made {
		err = o.make(dir)
	}
	if err != nil {
		return nil, false, err
	}
	if _, err := o.get(nil); err != nil {
		return nil, false, err
	}
	return o.get, made, nil
}

func (o *own) read(dir string) error {
	text, err := keyfile.Read(filepath.Join(dir, keyFile))
	if err != nil {
		return fmt.Errorf("reading the key of the console's CA: %w", err)
	}
	root, err := keyfile.Read(filepath.Join(dir, RootFile))
	if err != nil {
		return fmt.Errorf("reading the console's CA: %w", err)
	}
	pair, err := tls.X509KeyPair(root, text)
	if err != nil {
		return reason.Errorf(reason.ConfigInvalid, "reading the console's CA: %w", err).
			WithRemedy("Restore %s from a backup, or remove it: a new CA is created, which browsers must be made to trust.", dir)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return errors.New("the key of the console's CA is not a signing key")
	}
	o.root, o.key = pair.Leaf, signer
	return nil
}

// covers reports whether the CA may sign for all names, for long enough.
func (o *own) covers() bool {
	for _, name := range o.names {
		if !slices.Contains(o.root.PermittedDNSDomains, name) {
			return false
		}
	}
	return o.now().Add(leafLife).Before(o.root.NotAfter)
}

func (o *own) make(dir string) error {
	if err := keyfile.MakeDir(dir); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of the console's CA: %w", err)
	}
	nowhere := []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Palyra console CA for " + o.names[0]}, NotBefore: o.now().Add(-skew), NotAfter: o.now().Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: o.names, ExcludedIPRanges: nowhere,
	}
	if o.root, err = sign(t, t, &key.PublicKey, key); err != nil {
		return err
	}
	o.key = key
	text, err := keyfile.KeyText(key)
	if err != nil {
		return fmt.Errorf("writing the key of the console's CA: %w", err)
	}
	return errors.Join(
		keyfile.Write(filepath.Join(dir, keyFile), text),
		keyfile.Write(filepath.Join(dir, RootFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.root.Raw})),
	)
}

func (o *own) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.leaf != nil && o.now().Add(renewBefore).Before(o.leaf.Leaf.NotAfter) {
		return o.leaf, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	leaf, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: o.names[0]}, DNSNames: o.names, NotBefore: o.now().Add(-skew), NotAfter: o.now().Add(leafLife),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, o.root, &key.PublicKey, o.key)
	if err != nil {
		return nil, err
	}
	o.leaf = &tls.Certificate{Certificate: [][]byte{leaf.Raw, o.root.Raw}, PrivateKey: key, Leaf: leaf}
	return o.leaf, nil
}

func sign(t, by *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	t.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, t, by, public, key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate of the console: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate of the console: %w", err)
	}
	return c, nil
}
