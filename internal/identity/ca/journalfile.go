package ca

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// storedJournalKey is the stored form of a JournalKey.
type storedJournalKey struct {
	Verifier    string    `json:"verifier"`
	Chain       string    `json:"chain"`
	CertifiedAt time.Time `json:"certified_at"`
	First       int64     `json:"first_size"`
	Last        int64     `json:"last_size,omitempty"`
}

// nextJournalKey is a key whose takeover is not journaled yet.
type nextJournalKey struct {
	Signer string           `json:"signer"`
	Key    storedJournalKey `json:"key"`
}

func stored(k JournalKey) storedJournalKey {
	return storedJournalKey{Verifier: k.Verifier, Chain: k.ChainPEM(), CertifiedAt: k.CertifiedAt, First: k.First, Last: k.Last}
}

func (s storedJournalKey) key() (JournalKey, error) {
	k := JournalKey{Verifier: s.Verifier, CertifiedAt: s.CertifiedAt, First: s.First, Last: s.Last}
	var err error
	if s.Chain != "" {
		k.Chain, err = ParseChain([]byte(s.Chain))
	}
	return k, err
}

func (j *JournalKeys) writeNext(dir string, next nextJournalKey) (err error) {
	if next.Signer, err = j.keys.signerText(next.Signer); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, journalNextFile), next)
}

func (j *JournalKeys) write(dir, signer, verifier string) error {
	text, err := j.keys.signerText(signer)
	if err != nil {
		return err
	}
	return keyfile.Write(filepath.Join(dir, journalFile), []byte(strings.TrimSpace(text)+"\n"+verifier+"\n"))
}

// writeJournalPast writes the file from which older releases read the earlier keys.
func writeJournalPast(dir string, known []JournalKey) error {
	var text strings.Builder
	for _, k := range known[1:] {
		text.WriteString(k.Verifier + "\n")
	}
	return keyfile.Write(filepath.Join(dir, journalPastFile), []byte(text.String()))
}

func writeJournalKeys(dir string, known []JournalKey) error {
	list := make([]storedJournalKey, len(known))
	for i, k := range known {
		list[i] = stored(k)
	}
	return writeJSON(filepath.Join(dir, journalKeysFile), list)
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return keyfile.Write(path, append(text, '\n'))
}

// readJSON parses a file. It leaves into unchanged if the file does not exist.
func readJSON(path string, into any) error {
	text, err := keyfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err).
			WithRemedy("Restore the file from a backup of the state directory.")
	}
	return nil
}

func (j *JournalKeys) load() error {
	path := filepath.Join(j.keys.dir, journalFile)
	text, verifier, err := readJournalKey(path)
	if err != nil {
		return err
	}
	signer, err := j.keys.openSigner(text, verifier)
	if err != nil {
		return damaged(path, err)
	}
	if !isSealed(text) {
		if err := j.keys.foundPlain(path); err != nil {
			return err
		}
	}
	known, err := ReadJournalKeys(j.keys.dir)
	if err != nil {
		return err
	}
	j.signer, j.verifier, j.known = signer, verifier, known
	return j.loadNext()
}

func (j *JournalKeys) loadNext() error {
	path := filepath.Join(j.keys.dir, journalNextFile)
	var next nextJournalKey
	if err := readJSON(path, &next); err != nil || next.Key.Verifier == "" {
		return err
	}
	signer, err := j.keys.openSigner(next.Signer, next.Key.Verifier)
	if err != nil {
		return damaged(path, err)
	}
	if !isSealed(next.Signer) {
		if err := j.keys.foundPlain(path); err != nil {
			return err
		}
	}
	next.Signer = signer
	j.next = next
	return nil
}

// ReadJournalKeys reads the public checkpoint keys of the authority in dir, the current one first.
// Keys of an older release have no certificate, and sign for all sizes.
func ReadJournalKeys(dir string) ([]JournalKey, error) {
	_, verifier, err := readJournalKey(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, err
	}
	past, err := keyfile.Read(filepath.Join(dir, journalPastFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []storedJournalKey
	if err := readJSON(filepath.Join(dir, journalKeysFile), &list); err != nil {
		return nil, err
	}
	var known []JournalKey
	for _, text := range append([]string{verifier}, strings.Fields(string(past))...) {
		if slices.ContainsFunc(known, func(k JournalKey) bool { return k.Verifier == text }) {
			continue // a crash during the adoption of a key left it in both places
		}
		k := JournalKey{Verifier: text}
		if i := slices.IndexFunc(list, func(s storedJournalKey) bool { return s.Verifier == text }); i >= 0 {
			if k, err = list[i].key(); err != nil {
				return nil, reason.Errorf(reason.ConfigInvalid, "reading %s: %w", filepath.Join(dir, journalKeysFile), err)
			}
		}
		known = append(known, k)
	}
	return known, nil
}

// readJournalKey reads the signing key: its private text, which may be sealed, and its
// verifier.
func readJournalKey(path string) (text, verifier string, err error) {
	data, err := keyfile.Read(path)
	if err != nil {
		return "", "", err
	}
	whole := strings.TrimSpace(string(data))
	end := strings.LastIndexByte(whole, '\n')
	if end < 0 {
		return "", "", damaged(path, errors.New("it has one line, want a signer and a verifier key"))
	}
	text, verifier = whole[:end], whole[end+1:]
	if _, err := note.NewVerifier(verifier); err != nil {
		return "", "", damaged(path, err)
	}
	return text, verifier, nil
}
