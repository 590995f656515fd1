package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/keptkey"
)

// The files of a credential bundle; curl and grpcurl use the first three.
const (
	rootFile     = "ca.pem"
	certFile     = CredentialFile
	keyName      = "key.pem"
	endpointFile = "endpoint"
	// loginFile marks a bundle created by palyra login, which is not renewed.
	loginFile = "login"
)

// CredentialFile contains a bundle's key and certificates, which are replaced together.
const CredentialFile = "cert.pem"

// Bundle is a credential: the data with which a client connects to one gateway as one device.
// Its text form does not contain the key.
type Bundle struct {
	Root  *x509.Certificate
	Chain []*x509.Certificate
	Key   crypto.Signer
	// Kept is the location of the key if the bundle does not contain the key, else nil. Key is
	// then locked until it is replaced by the unlocked key.
	Kept *keptkey.Kept
	// Token is an API token in place of Chain and Key; "" for a device.
	Token string
	// Login means that the certificate belongs to a login session, which is not renewed.
	Login bool
	// Address is host:port; ServerName is the name in the server's certificate.
	Address    string
	ServerName string
}

// String returns the kind of the bundle and its identity, without the key.
func (b Bundle) String() string {
	if b.Token != "" {
		return "credential bundle of an API token"
	}
	if len(b.Chain) == 0 || len(b.Chain[0].URIs) == 0 {
		return "credential bundle"
	}
	return "credential bundle of " + b.Chain[0].URIs[0].String()
}

// GoString omits the key from debug output.
func (b Bundle) GoString() string { return b.String() }

// LogValue omits the key from logs.
func (b Bundle) LogValue() slog.Value { return slog.StringValue(b.String()) }

// NotAfter returns the time at which the bundle's certificate expires.
func (b Bundle) NotAfter() time.Time { return b.Chain[0].NotAfter }

// RenewAt returns the time at which two thirds of the certificate's lifetime are over.
func (b Bundle) RenewAt() time.Time {
	c := b.Chain[0]
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2)
}

// NewKey creates a P-256 key in memory.
func NewKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

// BundleKey returns the private key in dir, or creates a P-256 key there. It is the first step
// to a new bundle: the key remains in dir, and the client sends a request created with Request
// to the gateway. RenewBundle creates the next key of an existing bundle.
func BundleKey(dir string) (crypto.Signer, error) {
	if err := keyfile.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("making credential bundle: %w", err)
	}
	key, _, err := readCredential(filepath.Join(dir, keyName))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	made, err := NewKey()
	if err != nil {
		return nil, err
	}
	text, err := keyfile.KeyText(made)
	if err != nil {
		return nil, fmt.Errorf("making credential bundle: %w", err)
	}
	return made, keyfile.Write(filepath.Join(dir, keyName), text)
}

// Request creates a certificate request (PKCS #10, PEM) for a key. It contains no name: the gateway
// decides the owner of the key.
func Request(key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("making certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// WriteBundle writes the bundle's files into dir, each with mode 0600. The key and its
// certificates are in one file, cert.pem. It is written last and replaced by one rename, so
// that an interruption leaves a working credential. key.pem is another name of that file, for
// programs that expect two files. A key stored elsewhere is not written.
func WriteBundle(dir string, b Bundle) error { return writeBundle(dir, b, func(string) {}) }

// writeBundle calls reached for each written file.
func writeBundle(dir string, b Bundle, reached func(step string)) error {
	if err := keyfile.MakeDir(dir); err != nil {
		return fmt.Errorf("writing credential bundle: %w", err)
	}
	if strings.ContainsAny(b.Address+b.ServerName, "\r\n") {
		return reason.Errorf(reason.InvalidInput, "writing credential bundle: address %q or server name %q has a line break", b.Address, b.ServerName)
	}
	var key []byte
	if b.Kept == nil {
		var err error
		if key, err = keyfile.KeyText(b.Key); err != nil {
			return fmt.Errorf("writing credential bundle: %w", err)
		}
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{rootFile, certificates(b.Root)},
		{endpointFile, endpointText(b)},
		{certFile, append(key, certificates(b.Chain...)...)},
	} {
		if err := keyfile.Write(filepath.Join(dir, f.name), f.data); err != nil {
			return fmt.Errorf("writing credential bundle: %w", err)
		}
		reached(f.name)
	}
	if b.Kept != nil {
		return nil
	}
	if err := keyfile.Alias(filepath.Join(dir, keyName), certFile); err != nil {
		return fmt.Errorf("writing credential bundle: %w", err)
	}
	reached(keyName)
	return nil
}

// WriteLogin replaces the content of dir by the bundle of a login session. An interruption may
// leave no bundle, which requires a new login.
func WriteLogin(dir string, b Bundle) error {
	made := dir + ".new"
	if err := errors.Join(os.RemoveAll(made), WriteBundle(made, b)); err != nil {
		return err
	}
	if err := keyfile.Write(filepath.Join(made, loginFile), []byte("Made by `palyra login`. It is not renewed.\n")); err != nil {
		return fmt.Errorf("writing credential bundle: %w", err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(made, dir)); err != nil {
		return fmt.Errorf("writing credential bundle: %w", err)
	}
	return nil
}

// IsLogin reports whether a directory contains the bundle of a login session, even a damaged
// one.
func IsLogin(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, loginFile))
	return err == nil
}

// ReadBundle reads a bundle. It refuses a directory or file that group or others may access, and
// parts that do not belong together. An expired certificate is not an error: the bundle still
// contains the address for its renewal.
func ReadBundle(dir string) (Bundle, error) {
	b, err := readBundle(dir)
	if err != nil {
		return Bundle{}, fmt.Errorf("reading credential bundle: %w", err)
	}
	return b, nil
}

func readBundle(dir string) (Bundle, error) {
	if b, err := readTokenBundle(dir); !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	var b Bundle
	var err error
	b.Login = IsLogin(dir)
	if b.Key, b.Chain, err = readCredential(filepath.Join(dir, certFile)); err != nil {
		return b, missing(dir, err)
	}
	if b.Key == nil {
		if err := b.readKey(dir); err != nil {
			return b, missing(dir, err)
		}
	}
	if err := keyfile.CheckPrivate(dir); err != nil {
		return b, err
	}
	if b.Key == nil || len(b.Chain) == 0 {
		return b, reason.Errorf(reason.ConfigInvalid, "the bundle in %s has no key or no certificate", dir)
	}
	of, err := readGateway(dir)
	if err != nil {
		return b, missing(dir, err)
	}
	b.Root, b.Address, b.ServerName = of.Root, of.Address, of.ServerName
	if !isOf(b.Chain[0], b.Key) {
		return b, reason.Errorf(reason.ConfigInvalid, "%s and %s in %s do not belong together", keyName, certFile, dir).
			WithRemedy("Restart palyrad for the local operator, or have the bundle created again.")
	}
	if b.Chain[len(b.Chain)-1].CheckSignatureFrom(b.Root) != nil {
		return b, reason.Errorf(reason.ConfigInvalid, "%s in %s is not the root of %s", rootFile, dir, certFile)
	}
	return b, nil
}

// readKey finds a key that is not in the file of the certificates. The key may be in a separate
// file, as older releases wrote it, or stored elsewhere.
func (b *Bundle) readKey(dir string) error {
	key, _, err := readCredential(filepath.Join(dir, keyName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || key != nil {
		b.Key = key
		return err
	}
	kept, elsewhere := readKept(dir)
	if errors.Is(elsewhere, fs.ErrNotExist) {
		return err
	}
	b.Kept, b.Key = kept, lockedKey{kept}
	return elsewhere
}

// ReadGateway returns the gateway data of a bundle: the root, the address and the name. It needs
// neither the key nor the certificate.
func ReadGateway(dir string) (Bundle, error) {
	b, err := readGateway(dir)
	if err != nil {
		return Bundle{}, fmt.Errorf("reading the gateway of the credential bundle: %w", missing(dir, err))
	}
	return b, nil
}

func readGateway(dir string) (Bundle, error) {
	var b Bundle
	if err := keyfile.CheckPrivate(dir); err != nil {
		return b, err
	}
	roots, err := readChain(filepath.Join(dir, rootFile))
	if err != nil {
		return b, err
	}
	if len(roots) != 1 || !roots[0].IsCA {
		return b, reason.Errorf(reason.ConfigInvalid, "%s in %s is not one root certificate", rootFile, dir)
	}
	b.Root = roots[0]
	text, err := keyfile.Read(filepath.Join(dir, endpointFile))
	if err != nil {
		return b, err
	}
	return b, b.setEndpoint(string(text))
}

func endpointText(b Bundle) []byte {
	return []byte("address=" + b.Address + "\nserver_name=" + b.ServerName + "\n")
}

func missing(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return reason.Errorf(reason.NotConnected, "%s contains no complete credential bundle: %w", dir, err).
			WithRemedy("Start palyrad once on this host, or point at another bundle.")
	}
	return err
}

func (b *Bundle) setEndpoint(text string) error {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		switch name {
		case "address":
			b.Address = value
		case "server_name":
			b.ServerName = value
		default:
			return reason.Errorf(reason.ConfigInvalid, "endpoint has the unknown line %q", name)
		}
	}
	if b.Address == "" || b.ServerName == "" {
		return reason.Errorf(reason.ConfigInvalid, "endpoint needs address= and server_name=")
	}
	return nil
}

// readCredential reads a private key, certificates, or a key followed by its certificates. Missing
// parts are nil.
func readCredential(path string) (crypto.Signer, []*x509.Certificate, error) {
	text, err := keyfile.Read(path)
	if err != nil {
		return nil, nil, err
	}
	var key crypto.Signer
	if block, rest := pem.Decode(text); block != nil && block.Type == keyfile.KeyBlock {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, nil, reason.Errorf(reason.ConfigInvalid, "%s: the private key does not parse", path)
		}
		var can bool
		if key, can = parsed.(crypto.Signer); !can {
			return nil, nil, reason.Errorf(reason.ConfigInvalid, "%s: a %T cannot sign", path, parsed)
		}
		if len(strings.TrimSpace(string(rest))) == 0 {
			return key, nil, nil
		}
		text = rest
	}
	chain, err := ca.ParseChain(text)
	if err != nil {
		return nil, nil, reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err)
	}
	return key, chain, nil
}

// readChain reads certificates. They are public, but a person who can change them could
// redirect the client. The same modes are therefore required.
func readChain(path string) ([]*x509.Certificate, error) {
	text, err := keyfile.Read(path)
	if err != nil {
		return nil, err
	}
	chain, err := ca.ParseChain(text)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err)
	}
	return chain, nil
}

func certificates(list ...*x509.Certificate) []byte {
	var text []byte
	for _, c := range list {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

// tlsCertificate returns the bundle's credential as a tls.Certificate.
func (b Bundle) tlsCertificate() *tls.Certificate {
	c := &tls.Certificate{PrivateKey: b.Key, Leaf: b.Chain[0]}
	for _, link := range b.Chain {
		c.Certificate = append(c.Certificate, link.Raw)
	}
	return c
}

// ClientTLS returns the TLS configuration of a client with this bundle.
func (b Bundle) ClientTLS() *tls.Config {
	if b.Token != "" {
		return ca.ClientTLS(b.Root, b.ServerName, nil)
	}
	cert := b.tlsCertificate()
	return ca.ClientTLS(b.Root, b.ServerName, func() (*tls.Certificate, error) { return cert, nil })
}
