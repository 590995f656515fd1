// Package witness stores the known state of gateways' journals, and proves that their current state
// extends it.
package witness

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"palyra/internal/cli/client"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/journal"
)

// Memory is the stored state of one gateway, to detect a journal that was rolled back or forked, or
// is signed by another key. It is identified by the gateway's CA, because names of gateways are not
// unique.
type Memory struct {
	// CARoot is the fingerprint of the gateway's CA.
	CARoot  string `json:"ca_root"`
	Gateway string `json:"gateway"`
	// VerifierKey verifies the gateway's checkpoints.
	VerifierKey string `json:"verifier_key"`
	// Keys are all of its checkpoint keys with the sizes that they sign for. It is empty for an
	// older gateway.
	Keys []journal.SigningKey `json:"checkpoint_keys,omitempty"`
	// Note is the newest verified signed note.
	Note string `json:"checkpoint"`
}

// Signing returns the stored keys.
func (m Memory) Signing() []journal.SigningKey {
	if len(m.Keys) == 0 && m.VerifierKey != "" {
		return []journal.SigningKey{{Verifier: m.VerifierKey}}
	}
	return m.Keys
}

// Continues reports whether keys extend the stored ones: a stored key must be present, and may have
// ended since.
func (m Memory) Continues(keys []journal.SigningKey) bool {
	for _, was := range m.Signing() {
		i := slices.IndexFunc(keys, func(k journal.SigningKey) bool { return k.Verifier == was.Verifier })
		if i < 0 || was.Last != 0 && keys[i].Last != was.Last {
			return false
		}
		if len(m.Keys) > 0 && keys[i].First != was.First {
			return false
		}
	}
	return true
}

var fingerprintForm = lazyregexp.New(`^sha256:([0-9a-f]{64})$`)

// Path returns the file with the stored state of the gateway with a CA.
func Path(a *client.App, caRoot string) (string, error) {
	m := fingerprintForm.FindStringSubmatch(caRoot)
	if m == nil {
		return "", reason.Errorf(reason.VerificationFailed, "%q is not a fingerprint of a CA", caRoot)
	}
	return filepath.Join(a.Xdg("XDG_STATE_HOME", ".local/state"), "palyra-cli", "gateways", m[1]+".json"), nil
}

// Recall returns the stored state of the gateway with a CA, or the zero value if there is none.
func Recall(a *client.App, caRoot string) (Memory, error) {
	path, err := Path(a, caRoot)
	if err != nil {
		return Memory{}, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Memory{}, nil
	}
	var m Memory
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && m.CARoot != caRoot {
		err = errors.New("it is of another gateway")
	}
	if err != nil {
		return Memory{}, reason.Errorf(reason.VerificationFailed, "reading the stored state of the gateway, %s: %w", path, err).
			WithRemedy("If you know why it changed, remove the file; the next check starts from scratch.")
	}
	return m, nil
}

// Remember replaces the stored state of a gateway.
func Remember(a *client.App, m Memory) error {
	path, err := Path(a, m.CARoot)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return keyfile.Write(path, append(text, '\n'))
}

// Forget removes the stored state of a removed gateway, and the directory if it is then empty.
func Forget(a *client.App, caRoot string) error {
	path, err := Path(a, caRoot)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(filepath.Dir(path))
	return nil
}

// Checkpoint returns the stored checkpoint, verified; ok is false without one.
func (m Memory) Checkpoint() (cp journal.Checkpoint, ok bool, err error) {
	if m.Note == "" {
		return cp, false, nil
	}
	known, err := journal.NewSigners(m.Signing()...)
	if err == nil {
		cp, err = journal.ParseCheckpoint(m.Note, m.Gateway, known)
	}
	if err != nil {
		return cp, false, reason.Errorf(reason.VerificationFailed, "the remembered checkpoint of gateway %s: %w", m.Gateway, err)
	}
	return cp, true, nil
}

// KeyChanged returns the error of a gateway that signs with a key other than the stored one.
func KeyChanged(m Memory, path, got string) error {
	return reason.Errorf(reason.VerificationFailed, "gateway %s signs with another key than before", m.Gateway).
		WithField("before", m.VerifierKey).WithField("now", got).
		WithRemedy("Ask the operator whether the gateway was restored from a backup made before the key was replaced: then run `palyra journal accept-restore`. If the key was replaced otherwise, remove %s.", path)
}

// Within returns the stored checkpoint. An export that reaches this checkpoint must agree with
// it.
func (m Memory) Within() ([]journal.Checkpoint, error) {
	cp, ok, err := m.Checkpoint()
	if err != nil || !ok {
		return nil, err
	}
	return []journal.Checkpoint{cp}, nil
}
