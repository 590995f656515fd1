package wasm

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"palyra/internal/exec/sandbox/jail"
)

// codes keeps compiled modules. Compiled code is native code, so that only bytes count
// that this gateway made: each file ends with a MAC over its name and its content.
type codes struct {
	dir string
	key []byte
}

// codeName names the code of a module: the same module under another worker, another
// engine or other features is other code.
type codeName [sha256.Size]byte

func (n codeName) String() string { return hex.EncodeToString(n[:]) }

func (c codes) mac(name codeName, code []byte) []byte {
	m := hmac.New(sha256.New, c.key)
	_, _ = m.Write(name[:]) // a hash takes everything
	_, _ = m.Write(code)
	return m.Sum(nil)
}

func (c codes) path(name codeName) string { return filepath.Join(c.dir, name.String()+".code") }

// errForged is a file that somebody else wrote, or that is damaged.
var errForged = errors.New("it is not what palyrad wrote")

// read returns the code as a memory file that nobody can change, nil where there is none.
func (c codes) read(name codeName) (*os.File, error) {
	text, err := os.ReadFile(c.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none was compiled yet
	}
	if err != nil {
		return nil, fmt.Errorf("reading compiled code: %w", err)
	}
	if len(text) < sha256.Size {
		return nil, errForged
	}
	code, mac := text[:len(text)-sha256.Size], text[len(text)-sha256.Size:]
	if !hmac.Equal(mac, c.mac(name, code)) {
		return nil, errForged
	}
	return jail.DataFile("wasm-code", code)
}

// write keeps the code of a module for the next start of palyrad.
func (c codes) write(name codeName, code []byte) error {
	f, err := os.CreateTemp(c.dir, "new-*")
	if err != nil {
		return fmt.Errorf("keeping compiled code: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(code[:len(code):len(code)], c.mac(name, code)...))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path(name))
	}
	if err != nil {
		return fmt.Errorf("keeping compiled code: %w", err)
	}
	return nil
}

// readKey returns the key of the MAC, which is made the first time.
func readKey(name string) ([]byte, error) {
	key, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // it never fails
		if err := os.WriteFile(name, key, 0o600); err != nil {
			return nil, err
		}
		return key, nil
	}
	if err == nil && len(key) != sha256.Size {
		err = fmt.Errorf("%s has %d bytes in place of %d; remove it, and modules are compiled anew", name, len(key), sha256.Size)
	}
	return key, err
}

func (c codes) remove(name codeName) error { return os.Remove(c.path(name)) }
