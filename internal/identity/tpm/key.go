package tpm

import (
	"crypto"
	"crypto/ecdsa"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/google/go-tpm/tpm2"
)

// signing is the template of a P-256 key that signs SHA-256 digests and nothing else.
var signing = tpm2.TPMTPublic{
	Type: tpm2.TPMAlgECC, NameAlg: tpm2.TPMAlgSHA256,
	ObjectAttributes: tpm2.TPMAObject{
		FixedTPM: true, FixedParent: true, SensitiveDataOrigin: true, UserWithAuth: true, NoDA: true, SignEncrypt: true,
	},
	Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgECC, &tpm2.TPMSECCParms{
		CurveID: tpm2.TPMECCNistP256,
		Scheme: tpm2.TPMTECCScheme{
			Scheme:  tpm2.TPMAlgECDSA,
			Details: tpm2.NewTPMUAsymScheme(tpm2.TPMAlgECDSA, &tpm2.TPMSSigSchemeECDSA{HashAlg: tpm2.TPMAlgSHA256}),
		},
	}),
}

// key is a P-256 key inside a TPM.
type key struct {
	module *Module
	blob   blob
	public *ecdsa.PublicKey
}

// NewKey creates a P-256 key inside the TPM. text is the input of Key; it contains the key in a
// form that only this TPM can use.
func (m *Module) NewKey() (signer crypto.Signer, text []byte, err error) {
	b, err := do(m, nil, func(w *work) (blob, error) { return w.create(tpm2.TPMSSensitiveCreate{}, signing) })
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	k, err := m.key(b)
	if err != nil {
		return nil, nil, err
	}
	return k, b.pem(), nil
}

// Key opens a key that NewKey created. The TPM loads the key once, which proves that it can use
// the key.
func (m *Module) Key(text []byte) (crypto.Signer, error) {
	b, err := parse(text, signing)
	if err != nil {
		return nil, err
	}
	k, err := m.key(b)
	if err != nil {
		return nil, err
	}
	_, err = do(m, b.parent, func(w *work) (none struct{}, err error) {
		return loaded(w, b, func(tpm2.NamedHandle) (struct{}, error) { return none, nil })
	})
	if err != nil {
		return nil, fmt.Errorf("loading a key: %w", err)
	}
	return k, nil
}

func (m *Module) key(b blob) (*key, error) {
	public, err := b.public.Contents()
	if err != nil {
		return nil, err
	}
	parsed, err := tpm2.Pub(*public)
	if err != nil {
		return nil, err
	}
	ec, ok := parsed.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("the key is %T, want P-256", parsed)
	}
	return &key{module: m, blob: b, public: ec}, nil
}

// Public returns the public key.
func (k *key) Public() crypto.PublicKey { return k.public }

// sha256Only are the signing options of the key.
type sha256Only struct{}

// HashFunc returns crypto.SHA256.
func (sha256Only) HashFunc() crypto.Hash { return crypto.SHA256 }

// Sign signs a SHA-256 digest and returns DER (RFC 3279, 2.2.3). The TPM generates the
// randomness.
func (k *key) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts == nil || opts.HashFunc() != crypto.SHA256 || len(digest) != crypto.SHA256.Size() {
		return nil, errors.New("the key signs only SHA-256 digests")
	}
	der, err := do(k.module, k.blob.parent, func(w *work) ([]byte, error) {
		return loaded(w, k.blob, func(h tpm2.NamedHandle) ([]byte, error) { return w.sign(h, digest) })
	})
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	if !ecdsa.VerifyASN1(k.public, digest, der) {
		return nil, errors.New("the TPM's signature does not verify")
	}
	return der, nil
}

func (w *work) sign(h tpm2.NamedHandle, digest []byte) ([]byte, error) {
	res, err := tpm2.Sign{
		KeyHandle:  tpm2.AuthHandle{Handle: h.Handle, Name: h.Name, Auth: w.session(true, false)},
		Digest:     tpm2.TPM2BDigest{Buffer: digest},
		Validation: tpm2.TPMTTKHashCheck{Tag: tpm2.TPMSTHashCheck},
	}.Execute(w.tpm)
	if err != nil {
		return nil, err
	}
	sig, err := res.Signature.Signature.ECDSA()
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(struct{ R, S *big.Int }{
		new(big.Int).SetBytes(sig.SignatureR.Buffer), new(big.Int).SetBytes(sig.SignatureS.Buffer),
	})
}
