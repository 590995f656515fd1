// Package witness remembers what was seen of gateways, and proves that what is seen of
// them now goes on from that.
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

// Memory is what the CLI remembers of one gateway, to notice a journal that
// was rolled back or forked, or is signed by another key. It is found by the
// gateway's CA: the names of gateways are not unique.
type Memory struct {
	// CARoot is the fingerprint of the gateway's CA.
	CARoot  string `json:"ca_root"`
	Gateway string `json:"gateway"`
	// VerifierKey verifies the gateway's checkpoints.
	VerifierKey string `json:"verifier_key"`
	// Keys are all of its checkpoint keys with the sizes that they sign for. It is
	// empty when it was an older gateway that was seen.
	Keys []journal.SigningKey `json:"checkpoint_keys,omitempty"`
	// Note is the newest signed note that was seen and verified.
	Note string `json:"checkpoint"`
}

// Signing are the keys that are remembered.
func (m Memory) Signing() []journal.SigningKey {
	if len(m.Keys) == 0 && m.VerifierKey != "" {
		return []journal.SigningKey{{Verifier: m.VerifierKey}}
	}
	return m.Keys
}

// Continues reports whether keys are those that are remembered, or such that
// came after them: a key that is remembered stays, and may have ended since.
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

// Path is the file in which the gateway with a CA is remembered.
func Path(a *client.App, caRoot string) (string, error) {
	m := fingerprintForm.FindStringSubmatch(caRoot)
	if m == nil {
		return "", reason.Errorf(reason.VerificationFailed, "%q is no fingerprint of a CA", caRoot)
	}
	return filepath.Join(a.Xdg("XDG_STATE_HOME", ".local/state"), "palyra-cli", "gateways", m[1]+".json"), nil
}

// Recall returns what is remembered of the gateway with a CA; the zero memory
// is nothing.
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
		return Memory{}, reason.Errorf(reason.VerificationFailed, "reading what was remembered of the gateway, %s: %w", path, err).
			WithRemedy("If you know why it changed, remove the file; the next check begins anew.")
	}
	return m, nil
}

// Remember replaces what is remembered of a gateway.
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

// Forget removes what is remembered of a gateway that is no more, and the directory for it
// where nothing else is in it.
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

// Checkpoint is the remembered one, verified; ok is false when there is none.
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

// KeyChanged is the error for a gateway that signs with another key than the
// one that was remembered.
func KeyChanged(m Memory, path, got string) error {
	return reason.Errorf(reason.VerificationFailed, "gateway %s signs with another key than before", m.Gateway).
		WithField("before", m.VerifierKey).WithField("now", got).
		WithRemedy("Ask the operator whether the gateway was restored from a backup of before the key was replaced: then `palyra journal accept-restore`. If the key was replaced otherwise, remove %s.", path)
}

// Within is the remembered checkpoint, which an export must agree with if it
// reaches that far.
func (m Memory) Within() ([]journal.Checkpoint, error) {
	cp, ok, err := m.Checkpoint()
	if err != nil || !ok {
		return nil, err
	}
	return []journal.Checkpoint{cp}, nil
}
