package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
	"golang.org/x/crypto/blake2b"
)

// keyOptions say where the keys of a release are. There are two: ECDSA on P-256, whose signatures
// openssl and cosign verify, and the Ed25519 key of minisign.
type keyOptions struct {
	folder   string
	signWith string
}

// The files of the folder. Where a command signs, the folder needs only those that end in .pub.
const (
	ecdsaKey       = "palyra.key"
	ecdsaPublic    = "palyra.pub"
	minisignKey    = "minisign.key"
	minisignPublic = "minisign.pub"
)

func (k *keyOptions) declare(flags *flag.FlagSet) {
	flags.StringVar(&k.folder, "keys", "bin/packages-keys", "the folder of the keys: palyra.key and minisign.key to sign, palyra.pub and minisign.pub to verify; MINISIGN_PASSWORD decrypts minisign.key")
	flags.StringVar(&k.signWith, "sign-with", "", "a command that signs in the place of the key files: it gets `ecdsa-p256` or `ed25519` as its argument and hexadecimal digits on standard input, the SHA-256 digest or the message, and answers with the signature in base64: ASN.1 DER or 64 bytes")
}

// makeKeys makes keys for tests. It replaces none.
func makeKeys(_ context.Context, o options) error {
	if err := os.MkdirAll(o.keys.folder, 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	miniPublic, miniPrivate, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	miniPublicText, err := miniPublic.MarshalText()
	if err != nil {
		return err
	}
	miniPrivateText, err := miniPrivate.MarshalText()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		ecdsaKey:       pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		ecdsaPublic:    pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		minisignKey:    append(miniPrivateText, '\n'),
		minisignPublic: append(miniPublicText, '\n'),
	} {
		file, err := os.OpenFile(filepath.Join(o.keys.folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = file.Write(data)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// public returns both public keys.
func (k keyOptions) public() (*ecdsa.PublicKey, minisign.PublicKey, error) {
	name := filepath.Join(k.folder, ecdsaPublic)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, minisign.PublicKey{}, err
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, minisign.PublicKey{}, fmt.Errorf("%s is not a single PEM block PUBLIC KEY", name)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, minisign.PublicKey{}, fmt.Errorf("%s: %w", name, err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, minisign.PublicKey{}, fmt.Errorf("%s is not an ECDSA key on P-256", name)
	}
	mini, err := minisign.PublicKeyFromFile(filepath.Join(k.folder, minisignPublic))
	if err != nil {
		return nil, minisign.PublicKey{}, fmt.Errorf("%s: %w", filepath.Join(k.folder, minisignPublic), err)
	}
	return key, mini, nil
}

// A signer makes both kinds of signatures, each the same for the same message (RFC 6979, RFC 8032),
// as far as it is up to the keys in files.
type signer struct {
	public *ecdsa.PublicKey
	mini   minisign.PublicKey
	// ecdsa returns the ASN.1 DER signature of a SHA-256 digest, ed25519 that of a message.
	ecdsa   func(digest []byte) ([]byte, error)
	ed25519 func(message []byte) ([]byte, error)
}

func (k keyOptions) signer(ctx context.Context) (*signer, error) {
	public, mini, err := k.public()
	if err != nil {
		return nil, err
	}
	s := &signer{public: public, mini: mini}
	if k.signWith != "" {
		s.ecdsa = func(digest []byte) ([]byte, error) { return k.command(ctx, "ecdsa-p256", digest) }
		s.ed25519 = func(message []byte) ([]byte, error) { return k.command(ctx, "ed25519", message) }
		return s, nil
	}
	data, err := os.ReadFile(filepath.Join(k.folder, ecdsaKey))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s is not a PEM block PRIVATE KEY (PKCS #8)", filepath.Join(k.folder, ecdsaKey))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(k.folder, ecdsaKey), err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !public.Equal(key.Public()) {
		return nil, fmt.Errorf("%s and %s in %s do not belong together", ecdsaKey, ecdsaPublic, k.folder)
	}
	miniKey, err := k.minisignKey()
	if err != nil {
		return nil, err
	}
	s.ecdsa = func(digest []byte) ([]byte, error) { return key.Sign(nil, digest, crypto.SHA256) }
	s.ed25519 = func(message []byte) ([]byte, error) {
		text, err := miniKey.Sign(nil, message, crypto.Hash(0))
		if err != nil {
			return nil, err
		}
		var signature minisign.Signature
		err = signature.UnmarshalText(text)
		return signature.Signature[:], err
	}
	return s, nil
}

func (k keyOptions) minisignKey() (minisign.PrivateKey, error) {
	name := filepath.Join(k.folder, minisignKey)
	data, err := os.ReadFile(name)
	if err != nil {
		return minisign.PrivateKey{}, err
	}
	var key minisign.PrivateKey
	if minisign.IsEncrypted(data) {
		key, err = minisign.DecryptKey(os.Getenv("MINISIGN_PASSWORD"), data)
	} else {
		err = key.UnmarshalText(bytes.TrimSpace(data))
	}
	if err != nil {
		return minisign.PrivateKey{}, fmt.Errorf("%s: %w; MINISIGN_PASSWORD decrypts it", name, err)
	}
	return key, nil
}

// command runs the command of --sign-with, as a key in hardware needs it.
func (k keyOptions) command(ctx context.Context, algorithm string, message []byte) ([]byte, error) {
	words := strings.Fields(k.signWith)
	if len(words) == 0 {
		return nil, errors.New("-sign-with names no command")
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], algorithm)...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(hex.EncodeToString(message)+"\n"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", k.signWith, algorithm, err)
	}
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, fmt.Errorf("%s %s printed no base64: %w", k.signWith, algorithm, err)
	}
	return signature, nil
}

// signECDSA returns the signature of a message, which must hold under the public key.
func (s *signer) signECDSA(message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	signature, err := s.ecdsa(digest[:])
	if err != nil {
		return nil, err
	}
	if !ecdsa.VerifyASN1(s.public, digest[:], signature) {
		return nil, fmt.Errorf("the signature does not verify with %s: another key signed", ecdsaPublic)
	}
	return signature, nil
}

// signMinisign returns the file .minisig of a message.
func (s *signer) signMinisign(message []byte, comment string) ([]byte, error) {
	// The signature is of the BLAKE2b digest, as minisign makes it by default.
	hashed := blake2b.Sum512(message)
	signature := minisign.Signature{Algorithm: minisign.HashEdDSA, KeyID: s.mini.ID(), TrustedComment: comment, UntrustedComment: "signature of the Palyra release"}
	of, err := s.ed25519(hashed[:])
	if err != nil {
		return nil, err
	}
	ofComment, err := s.ed25519(append(bytes.Clone(of), comment...))
	if err != nil {
		return nil, err
	}
	if len(of) != ed25519.SignatureSize || len(ofComment) != ed25519.SignatureSize {
		return nil, errors.New("an Ed25519 signature has 64 bytes, and the key's has not")
	}
	copy(signature.Signature[:], of)
	copy(signature.CommentSignature[:], ofComment)
	text, err := signature.MarshalText()
	if err != nil {
		return nil, err
	}
	if !minisign.Verify(s.mini, message, text) {
		return nil, fmt.Errorf("the signature does not verify with %s: another key signed", minisignPublic)
	}
	return text, nil
}
