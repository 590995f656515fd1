// Package certificate provides the certificates of a console that other machines can reach:
// configured certificates, or certificates of a CA that is constrained to the console's names.
// The CA of devices never signs these certificates: browsers would have to trust that CA for
// every name.
package certificate

import (
	"crypto/tls"
	"os"
	"sync"
	"time"

	"palyra/internal/core/reason"
)

// Source returns the certificate of each handshake.
type Source func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// lookInterval is how often files are checked for a change.
const lookInterval = 10 * time.Second

// files are a certificate and its key, reloaded when they change.
type files struct {
	certificate, key string
	now              func() time.Time
	failed           func(error)

	mu     sync.Mutex
	loaded *tls.Certificate
	// at has the modification times of both files at the last load. looked is the time of the last
	// check.
	at     [2]time.Time
	looked time.Time
}

// Files returns the certificate chain and key of two PEM files, and reloads them when they change.
// If that fails, it calls failed and keeps the previous certificate.
func Files(certificate, key string, failed func(error)) (Source, error) {
	f := &files{certificate: certificate, key: key, now: time.Now, failed: failed}
	f.looked = f.now()
	if err := f.load(); err != nil {
		return nil, err
	}
	return f.get, nil
}

func (f *files) load() error {
	at, err := f.times()
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(f.certificate, f.key); err == nil {
			f.loaded, f.at = &pair, at
			return nil
		}
	}
	return reason.Errorf(reason.ConfigInvalid, "reading the certificate of the console: %w", err).
		WithRemedy("Make console.certificate_file and console.key_file readable for palyrad; they must be a matching pair in PEM.")
}

func (f *files) times() (at [2]time.Time, err error) {
	for i, path := range []string{f.certificate, f.key} {
		info, err := os.Stat(path)
		if err != nil {
			return at, err //nolint:wrapcheck // load says what it is of
		}
		at[i] = info.ModTime()
	}
	return at, nil
}

func (f *files) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); now.Sub(f.looked) >= lookInterval {
		f.looked = now
		if at, err := f.times(); err != nil || at != f.at {
			if err := f.load(); err != nil {
				f.failed(err)
			}
		}
	}
	return f.loaded, nil
}
