// Package backup creates one encrypted file with everything that a gateway needs to run, and
// restores a state directory from it. docs/format/backup.md specifies the file.
//
// A backup contains the key of the vault even if the key is in a keyring, because the keyring
// is lost with the machine. The key is stored in the form of the backend "file", so that every
// palyrad can restore it. A locked keyring does not prevent a backup; the missing key is
// reported then and at the restore.
package backup

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/statedir"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
)

// Format is the version of the file's format.
const Format = 1

// signedTag is the prefix of the text that the journal's key signs; no other signed text has it.
const signedTag = "palyra.dev/backup/v1\n"

// Limits of a backup, in bytes except for the number of files. Only the store may be larger.
const (
	maxManifest = 8 << 20
	maxFiles    = 10_000
	// maxSmall leaves room for the store, its head file and the packages of skills.
	maxSmall = maxFiles - 1000
	maxFile  = 64 << 20
)

// The directories in a backup, and the name of its first entry.
const (
	inState      = "state/"
	inPolicy     = "policy/"
	inConfig     = "config/palyra.toml"
	manifestName = "manifest.note"
)

// Manifest lists the content of a backup. It is the first entry of the file, signed by the key that
// signs the journal's checkpoints.
type Manifest struct {
	Format int `json:"format"`
	// Gateway is the gateway's id, CARoot the fingerprint of its CA.
	Gateway string `json:"gateway"`
	CARoot  string `json:"ca_root"`
	// Release created the backup, at the time MadeAt (UTC).
	Release string    `json:"release"`
	MadeAt  time.Time `json:"made_at"`
	// Checkpoint is the signed head of the journal in the backup, Size and Root (hex) are its
	// contents.
	Size       int64  `json:"journal_size"`
	Root       string `json:"journal_root"`
	Checkpoint string `json:"checkpoint"`
	// Files are all other entries, in order.
	Files []File `json:"files"`
	// Keys are the locations of the gateway's keys.
	Keys []Key `json:"keys"`
	// Outside lists files that the gateway needs but the backup does not contain.
	Outside []string `json:"outside"`
}

// File is an entry of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Key is the location of a gateway's key.
type Key struct {
	Key    string `json:"key"`
	Place  string `json:"place"`
	Detail string `json:"detail"`
}

// inTPM reports whether a key of the authority is in a TPM.
func (m Manifest) inTPM() bool {
	for _, k := range m.Keys {
		if k.Place == ca.PlaceTPM {
			return true
		}
	}
	return false
}

// sign returns the manifest as a signed note.
func (m Manifest) sign(key *journal.Key) ([]byte, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	signed, err := note.Sign(&note.Note{Text: signedTag + string(text) + "\n"}, key)
	if err == nil && len(signed) > maxManifest {
		err = fmt.Errorf("the list of files has %d bytes, the limit is %d", len(signed), maxManifest)
	}
	return signed, err
}

// parseManifest parses the first entry of a backup. Its signature is verified later, with keys that
// follow it: until then it is not trusted.
func parseManifest(signed []byte) (m Manifest, err error) {
	text, found := strings.CutPrefix(string(signed), signedTag)
	end := strings.LastIndex(text, "\n\n")
	if !found || end < 0 {
		return m, errors.New("the manifest is not a signed note of a backup")
	}
	if err := json.Unmarshal([]byte(text[:end+1]), &m); err != nil {
		return m, fmt.Errorf("reading the manifest: %w", err)
	}
	return m, m.check()
}

// verifyManifest verifies the manifest with the keys of the journal.
func verifyManifest(signed []byte, m Manifest, known *journal.Signers) (head journal.Checkpoint, err error) {
	n, err := note.Open(signed, known)
	if err != nil {
		return head, fmt.Errorf("the manifest: %w", err)
	}
	if len(n.Sigs) != 1 || n.Sigs[0].Name != m.Gateway {
		return head, errors.New("the manifest is not signed by the gateway that it names")
	}
	head, err = journal.ParseCheckpoint(m.Checkpoint, m.Gateway, known)
	if err == nil && (head.Size != m.Size || hex.EncodeToString(head.Root[:]) != m.Root) {
		err = errors.New("the manifest names another head than its checkpoint")
	}
	return head, err
}

// check refuses an invalid manifest.
func (m Manifest) check() error {
	if m.Format != Format {
		return fmt.Errorf("it has format %d, this palyrad supports %d", m.Format, Format)
	}
	if len(m.Files) > maxFiles {
		return fmt.Errorf("it lists %d files, the limit is %d", len(m.Files), maxFiles)
	}
	seen, hasStore := make(map[string]bool), false
	for _, f := range m.Files {
		// On a case-insensitive file system, names that differ only in case are one file.
		folded := strings.ToLower(f.Name)
		switch store := f.Name == storeName; {
		case checkName(f.Name) != nil:
			return checkName(f.Name)
		case seen[folded]:
			return fmt.Errorf("%q is listed twice", f.Name)
		case f.Size < 0 || f.Size > maxFile && !store:
			return fmt.Errorf("%q has %d bytes, the limit is %d", f.Name, f.Size, maxFile)
		default:
			seen[folded], hasStore = true, hasStore || store
		}
	}
	if !hasStore {
		return fmt.Errorf("%s is missing", storeName)
	}
	return nil
}

// storeName is the entry of the store.
var storeName = inState + filepath.Base(statedir.Store(""))

// checkName refuses a name outside of the directories of a backup, or a file that a state directory
// cannot have.
func checkName(name string) error {
	refused := fmt.Errorf("%q is not a valid file name in a backup", name)
	if !fs.ValidPath(name) || !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsAny(name, `\:`) || strings.ContainsFunc(name, unicode.IsControl) {
		return refused
	}
	if below, ok := strings.CutPrefix(name, inState); ok && statedir.Kept(below) {
		return nil
	}
	if strings.HasPrefix(name, inPolicy) || name == inConfig {
		return nil
	}
	return refused
}
