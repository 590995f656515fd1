// Package ca is the gateway's certificate authority. A root signs only the issuing intermediate.
// Name constraints restrict the intermediate to the gateway's trust domain. It issues the
// short-lived certificates of servers and devices, and the certificates of the notary. The package
// also stores the signing keys of the notary and the journal.
//
// All files are in one directory of mode 0700. Identities are URI names spiffe://<trust
// domain>/...; a common name is never used as an identity.
//
// keys.store must match the location of the keys, or opening fails. If keys in files were
// accepted with the setting tpm, operators would rely on a protection that does not exist. With
// the setting file, the next rotation would write a key in plain text.
package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/dnsname"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// Lifetimes.
const (
	RootLife    = 10 * 365 * 24 * time.Hour
	IssuingLife = 365 * 24 * time.Hour
	LeafLife    = 24 * time.Hour
	// skew is how far the validity of a certificate starts in the past, so that a peer with a slow
	// clock accepts the certificate.
	skew = 5 * time.Minute
)

// Loopback returns the names and addresses that every server certificate may contain.
func Loopback() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// Options are the settings of an authority.
type Options struct {
	// TrustDomain is a lower-case DNS name. It cannot change once the authority exists. "" means
	// the domain of the existing authority. The default for a new authority is a name from the
	// digest of its root's public key: palyra-0f1e2d3c4b5a6978.internal.
	TrustDomain string
	// ServerHosts are the names and addresses, in addition to loopback, for which server
	// certificates may be issued.
	ServerHosts []string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Rand generates serial numbers; nil means crypto/rand. Keys always come from the system's
	// generator.
	Rand io.Reader
	// Module stores the keys; nil means files.
	Module Module
}

// Authority issues and verifies the certificates of devices and servers. It is safe for concurrent
// use.
type Authority struct {
	keys *keyStore
	root *trustRoot
	// Issuing is the intermediate that signs all other certificates. Notary and Journal have the
	// signing keys of the notary and the journal.
	Issuing *Issuing
	Notary  *Notary
	Journal *JournalKeys
}

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// lowerDomain reports whether name is a DNS name in lower case.
func lowerDomain(name string) bool { return dnsname.Valid(name) && name == strings.ToLower(name) }

// Open reads the authority in dir, or creates it if dir does not exist or is empty; created reports
// which. It refuses a directory that others may read, a missing or unreadable file, and another
// trust domain: replacing a damaged authority would orphan every device and attestation.
func Open(dir string, o Options) (a *Authority, created bool, err error) {
	a, err = newAuthority(dir, o)
	if err != nil {
		return nil, false, err
	}
	if err := endSeal(a.keys.dir); err != nil {
		return nil, false, fmt.Errorf("ending the move of keys: %w", err)
	}
	empty, err := isEmpty(dir)
	if err != nil {
		return nil, false, fmt.Errorf("opening certificate authority: %w", err)
	}
	if empty && a.keys.module != nil {
		if err := a.keys.module.Prove(); err != nil {
			return nil, false, fmt.Errorf("making certificate authority: %w", err)
		}
	}
	if empty {
		if err := a.create(); err != nil {
			return nil, false, fmt.Errorf("making certificate authority: %w", err)
		}
	}
	if err := a.keys.sweep(); err != nil {
		return nil, false, fmt.Errorf("opening certificate authority: %w", err)
	}
	if err := a.load(); err != nil {
		return nil, false, fmt.Errorf("opening certificate authority: %w", err)
	}
	return a, empty, a.Maintain()
}

// Inspect opens an existing authority without creating or renewing anything. It detects every
// defect that Open refuses.
func Inspect(dir string, o Options) (*Authority, error) {
	a, err := newAuthority(dir, o)
	if err != nil {
		return nil, err
	}
	if err := checkSealed(a.keys.dir); err != nil {
		return nil, err
	}
	if err := a.load(); err != nil {
		return nil, fmt.Errorf("opening certificate authority: %w", err)
	}
	return a, nil
}

func newAuthority(dir string, o Options) (*Authority, error) {
	if o.TrustDomain != "" && (!lowerDomain(o.TrustDomain) || net.ParseIP(o.TrustDomain) != nil) {
		return nil, reason.Errorf(reason.ConfigInvalid, "trust domain %q is not a lower-case DNS name", o.TrustDomain)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	hosts := Loopback()
	for _, h := range o.ServerHosts {
		if err := checkHost(h); err != nil {
			return nil, err
		}
		if !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	keys := &keyStore{dir: filepath.Clean(dir), module: o.Module}
	root := &trustRoot{keys: keys, domain: o.TrustDomain, now: o.Now, rand: o.Rand}
	issuing := &Issuing{keys: keys, root: root, hosts: hosts}
	return &Authority{
		keys: keys, root: root, Issuing: issuing,
		Notary:  &Notary{keys: keys, root: root, issuing: issuing},
		Journal: &JournalKeys{keys: keys, root: root, issuing: issuing},
	}, nil
}

func checkHost(h string) error {
	if net.ParseIP(h) != nil || lowerDomain(h) {
		return nil
	}
	return reason.Errorf(reason.ConfigInvalid, "server host %q is neither an IP address nor a lower-case DNS name", h)
}

func isEmpty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(entries) == 0, err
}

// create creates all files in a sibling directory and renames it, so that a crash leaves no
// partial authority.
func (a *Authority) create() error {
	parent := filepath.Dir(a.keys.dir)
	if err := os.MkdirAll(parent, keyfile.DirMode); err != nil {
		return err
	}
	made := a.keys.dir + ".new"
	if err := os.RemoveAll(made); err != nil {
		return err
	}
	if err := os.Mkdir(made, keyfile.DirMode); err != nil {
		return err
	}
	if err := a.fill(made); err != nil {
		return err
	}
	if err := os.Remove(a.keys.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, a.keys.dir); err != nil {
		return err
	}
	return keyfile.SyncDir(parent)
}

// fill writes all files of a new authority into dir.
func (a *Authority) fill(dir string) error {
	if err := a.root.make(); err != nil {
		return err
	}
	if err := a.Issuing.make(dir); err != nil {
		return err
	}
	if err := a.keys.writePair(filepath.Join(dir, rootFile), a.root.pair); err != nil {
		return err
	}
	if err := a.Notary.make(dir); err != nil {
		return err
	}
	return a.Journal.make(dir)
}

// load reads all files.
func (a *Authority) load() error {
	if err := keyfile.CheckDir(a.keys.dir); err != nil {
		return err
	}
	var err error
	if a.root.pair, err = a.keys.readPair(filepath.Join(a.keys.dir, rootFile)); err != nil {
		return err
	}
	if err := a.root.check(); err != nil {
		return err
	}
	if err := a.Issuing.load(); err != nil {
		return err
	}
	if err := a.Notary.load(); err != nil {
		return err
	}
	return a.Journal.load()
}

// TrustDomain returns the trust domain.
func (a *Authority) TrustDomain() string { return a.root.domain }

// Root returns the root certificate.
func (a *Authority) Root() *x509.Certificate { return a.root.cert }

// RootPEM returns the root certificate in PEM, the ca.pem of a bundle.
func (a *Authority) RootPEM() []byte { return chainPEM([]*x509.Certificate{a.root.cert}) }

// Maintain renews the issuing certificate and the notary's certificate when two thirds of their
// life are over, and certifies a checkpoint key that an older release created. Open calls it, and a
// daemon calls it daily.
func (a *Authority) Maintain() error {
	if err := a.Issuing.renew(); err != nil {
		return fmt.Errorf("renewing the issuing certificate: %w", err)
	}
	if err := a.Notary.renew(); err != nil {
		return fmt.Errorf("renewing the notary's certificate: %w", err)
	}
	if err := a.Journal.certifyOld(); err != nil {
		return fmt.Errorf("certifying the checkpoint key: %w", err)
	}
	return nil
}
