package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"palyra/internal/identity/keyfile"
	"palyra/internal/journal"
	"palyra/internal/reason"
)

// memory is what the CLI remembers of one gateway, to notice a journal that
// was rolled back or forked, or is signed by another key.
type memory struct {
	Gateway string `json:"gateway"`
	// VerifierKey verifies the gateway's checkpoints.
	VerifierKey string `json:"verifier_key"`
	// CARoot is the fingerprint of the gateway's CA, "" when not known.
	CARoot string `json:"ca_root"`
	// Checkpoint is the newest signed note that was seen and verified.
	Checkpoint string `json:"checkpoint"`
}

var gatewayForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (a *app) memoryPath(gateway string) (string, error) {
	if !gatewayForm.MatchString(gateway) {
		return "", reason.Errorf(reason.VerificationFailed, "the gateway's id %q is not one", gateway)
	}
	return filepath.Join(a.xdg("XDG_STATE_HOME", ".local/state"), "palyra-cli", "gateways", gateway+".json"), nil
}

// recall returns what is remembered of a gateway; the zero memory is nothing.
func (a *app) recall(gateway string) (memory, error) {
	path, err := a.memoryPath(gateway)
	if err != nil {
		return memory{}, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return memory{}, nil
	}
	var m memory
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && m.Gateway != gateway {
		err = errors.New("it is of another gateway")
	}
	if err != nil {
		return memory{}, reason.Errorf(reason.VerificationFailed, "reading what was remembered of the gateway, %s: %w", path, err).
			WithRemedy("If you know why it changed, remove the file; the next check begins anew.")
	}
	return m, nil
}

func (a *app) remember(m memory) error {
	path, err := a.memoryPath(m.Gateway)
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

// checkpoint is the remembered one, verified; ok is false when there is none.
func (m memory) checkpoint() (cp journal.Checkpoint, ok bool, err error) {
	if m.Checkpoint == "" {
		return cp, false, nil
	}
	known, err := journal.ParseKeys(m.VerifierKey)
	if err == nil {
		cp, err = journal.ParseCheckpoint(m.Checkpoint, m.Gateway, known)
	}
	if err != nil {
		return cp, false, reason.Errorf(reason.VerificationFailed, "the remembered checkpoint of gateway %s: %w", m.Gateway, err)
	}
	return cp, true, nil
}

// keyChanged is the error for a gateway that signs with another key than the
// one that was remembered.
func keyChanged(m memory, path, got string) error {
	return reason.Errorf(reason.VerificationFailed, "gateway %s signs with another key than before", m.Gateway).
		WithField("before", m.VerifierKey).WithField("now", got).
		WithRemedy("Ask the operator whether the key was replaced. If so, remove %s.", path)
}
