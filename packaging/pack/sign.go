package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"aead.dev/minisign"
)

// sign writes the signatures of both lists, the provenance, and copies the public keys.
func sign(ctx context.Context, o options) error {
	rel, err := o.release()
	if err != nil {
		return err
	}
	s, err := o.keys.signer(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{sumsName, programsName} {
		data, err := os.ReadFile(filepath.Join(o.out, name))
		if err != nil {
			return fmt.Errorf("%w; make the artifacts first", err)
		}
		signature, err := s.signECDSA(data)
		if err != nil {
			return err
		}
		mini, err := s.signMinisign(data, "palyra "+rel.version+" "+name)
		if err != nil {
			return err
		}
		// As cosign sign-blob writes it.
		if err := errors.Join(writeFile(filepath.Join(o.out, name+".sig"), []byte(base64.StdEncoding.EncodeToString(signature)+"\n"), 0o644), writeFile(filepath.Join(o.out, name+".minisig"), mini, 0o644)); err != nil {
			return err
		}
	}
	envelope, err := provenance(o, rel, s)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(o.out, rel.provenance()), envelope, 0o644); err != nil {
		return err
	}
	for _, name := range []string{ecdsaPublic, minisignPublic} {
		data, err := os.ReadFile(filepath.Join(o.keys.folder, name))
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(o.out, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// verify checks every signature of the folder with the public keys of the key folder, not with the
// ones in the folder of the signatures.
func (k keyOptions) verify(folder string) error {
	public, mini, err := k.public()
	if err != nil {
		return err
	}
	for _, name := range []string{sumsName, programsName} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		digest := sha256.Sum256(data)
		text, err := os.ReadFile(filepath.Join(folder, name+".sig"))
		if err != nil {
			return fmt.Errorf("%s is not signed: %w", name, err)
		}
		signature, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
		if err != nil || !ecdsa.VerifyASN1(public, digest[:], signature) {
			return fmt.Errorf("%s (digest %x) has no valid signature of %s in %s.sig", name, digest, filepath.Join(k.folder, ecdsaPublic), name)
		}
		text, err = os.ReadFile(filepath.Join(folder, name+".minisig"))
		if err != nil {
			return fmt.Errorf("%s is not signed: %w", name, err)
		}
		if !minisign.Verify(mini, data, text) {
			return fmt.Errorf("%s (digest %x) has no valid signature of %s in %s.minisig", name, digest, filepath.Join(k.folder, minisignPublic), name)
		}
	}
	found, err := filepath.Glob(filepath.Join(folder, "*.intoto.jsonl"))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%s has %d files of provenance, not one", folder, len(found))
	}
	return verifyEnvelope(found[0], public, filepath.Join(folder, sumsName))
}

// verifyEnvelope checks the signature of the provenance, and that its subjects are the artifacts of
// the list.
func verifyEnvelope(name string, public *ecdsa.PublicKey, list string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if e.PayloadType != statementType || len(e.Signatures) != 1 {
		return fmt.Errorf("%s is not an in-toto statement with one signature", name)
	}
	digest := sha256.Sum256(preAuthentication(e.PayloadType, e.Payload))
	if !ecdsa.VerifyASN1(public, digest[:], e.Signatures[0].Signature) {
		return fmt.Errorf("%s has no valid signature of %s", name, ecdsaPublic)
	}
	var s statement
	if err := json.Unmarshal(e.Payload, &s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	listed, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	sums, err := readSums(listed)
	if err != nil {
		return err
	}
	digests := make(map[string]string)
	for _, sum := range sums {
		digests[sum.name] = sum.digest
	}
	for _, subject := range s.Subject {
		if digests[subject.Name] != subject.Digest.SHA256 {
			return fmt.Errorf("%s has another digest of %s than %s", name, subject.Name, sumsName)
		}
		delete(digests, subject.Name)
	}
	if len(digests) > 0 {
		return fmt.Errorf("%s lacks %d artifacts of %s", name, len(digests), sumsName)
	}
	return nil
}
