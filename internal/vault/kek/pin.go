package kek

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/statedir/keyfile"
)

// pinFormat is the format of the pin.
const pinFormat = "palyra vault v1"

// pin is the location of a gateway's keys, so that no other location is accepted. It is the file
// vault.json.
type pin struct {
	Format  string `json:"format"`
	Gateway string `json:"gateway"`
	Backend string `json:"backend"`
	// Keys are the keys that may wrap something, the current one last.
	Keys []pinned `json:"keys"`
	// Leftover are unused keys that may still exist: they are deleted when their backend is
	// available.
	Leftover []leftover `json:"leftover"`
	// MAC is HMAC-SHA256 of all other members (RFC 8785) under a key derived from the current key,
	// in hex.
	MAC string `json:"mac,omitempty"`
}

// pinned identifies a key.
type pinned struct {
	ID string `json:"id"`
	// Check verifies that a key is the pinned one, in hex. It reveals nothing else about the key.
	Check string `json:"check"`
}

type leftover struct {
	Backend string `json:"backend"`
	ID      string `json:"id"`
}

// errNoPin is returned for a gateway without a pin. It does not wrap fs.ErrNotExist, which a
// backend may wrap too: a missing keyring socket must not be treated as a gateway that never
// had a key.
var errNoPin = errors.New("vault.json does not exist")

// readPin reads the pin of a state directory; the error is errNoPin if the pin does not exist.
// The pin is not verified before its key is available.
func readPin(stateDir, gateway string) (*pin, error) {
	path := statedir.VaultPin(stateDir)
	text, err := keyfile.ReadOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoPin
	}
	if err != nil {
		return nil, unasked(err)
	}
	p := &pin{}
	if err := decode(text, p); err != nil || p.Format != pinFormat || len(p.Keys) == 0 || p.Backend == "" {
		return nil, changedPin("vault.json is not in palyrad's format")
	}
	if p.Gateway != gateway {
		return nil, changedPin("vault.json belongs to the gateway " + p.Gateway)
	}
	return p, nil
}

func changedPin(how string) error {
	return reason.Errorf(reason.SecretUnreadable, "%s", how).
		WithRemedy("Restore vault.json from a backup of the state directory; the keys are still in their backend.")
}

// write stores the pin in the state directory, authenticated by its current key.
func (p *pin) write(stateDir string, key []byte) error {
	text, err := p.text(key)
	if err != nil {
		return err
	}
	return keyfile.Write(statedir.VaultPin(stateDir), text)
}

// text returns vault.json, authenticated by the current key.
func (p *pin) text(key []byte) ([]byte, error) {
	mac, err := p.mac(key)
	if err != nil {
		return nil, err
	}
	p.MAC = hex.EncodeToString(mac)
	text, err := json.MarshalIndent(p, "", "  ")
	return append(text, '\n'), err
}

// authentic reports whether the pin was written with its current key.
func (p *pin) authentic(key []byte) bool {
	said, err := hex.DecodeString(p.MAC)
	if err != nil {
		return false
	}
	mac, err := p.mac(key)
	return err == nil && hmac.Equal(said, mac)
}

func (p *pin) mac(key []byte) ([]byte, error) {
	bare := *p
	bare.MAC = ""
	text, err := canonical.Marshal(bare)
	if err != nil {
		return nil, err
	}
	derived, err := hkdf.Expand(sha256.New, key, "palyra vault pin v1", sha256.Size)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, derived)
	h.Write(text)
	return h.Sum(nil), nil
}

// newPinned returns the entry of a key.
func newPinned(id string, key []byte) (pinned, error) {
	check, err := hkdf.Expand(sha256.New, key, "palyra kek check v1\x00"+id, 16)
	return pinned{id, hex.EncodeToString(check)}, err
}

// is reports whether a key is the pinned one.
func (k pinned) is(key []byte) bool {
	other, err := newPinned(k.ID, key)
	return err == nil && hmac.Equal([]byte(other.Check), []byte(k.Check))
}

// current returns the key that wraps all new data keys.
func (p *pin) current() pinned { return p.Keys[len(p.Keys)-1] }

// find returns the entry with an id.
func (p *pin) find(id string) (pinned, bool) {
	i := slices.IndexFunc(p.Keys, func(k pinned) bool { return k.ID == id })
	if i < 0 {
		return pinned{}, false
	}
	return p.Keys[i], true
}

// clone returns a copy to be changed.
func (p *pin) clone() *pin {
	c := *p
	c.Keys, c.Leftover = slices.Clone(p.Keys), slices.Clone(p.Leftover)
	return &c
}

// leave adds a key to the left-over list.
func (p *pin) leave(backend, id string) {
	if l := (leftover{backend, id}); !slices.Contains(p.Leftover, l) {
		p.Leftover = append(p.Leftover, l)
	}
}

// settle removes a key from the left-over list.
func (p *pin) settle(backend, id string) {
	p.Leftover = slices.DeleteFunc(p.Leftover, func(l leftover) bool { return l == leftover{backend, id} })
}

// allows returns an error unless a setting matches the pinned backend.
func (p *pin) allows(setting string) error {
	if setting == Auto || setting == p.Backend {
		return nil
	}
	return reason.Errorf(reason.ConfigInvalid, "vault.backend is %q, but the key of the vault is in %q", setting, p.Backend).
		WithRemedy("Set vault.backend to %q.", p.Backend)
}

// missing returns the error of a key that its backend does not have.
func missing(backend, id string) error {
	return reason.Errorf(reason.VaultKeyMissing, "the vault's key %s is missing in the backend %s", id, backend).
		WithRemedy("Restore it from a backup: %s. Without it the data that it encrypts is lost.", whereIs(backend))
}

func whereIs(backend string) string {
	switch backend {
	case InFile:
		return "vault.kek of the state directory"
	case DPAPI:
		return "vault.dpapi of the state directory, on the same machine and for the same user"
	}
	return fmt.Sprintf("the keyring of the user that palyrad runs as (%s)", spoken(backend))
}
