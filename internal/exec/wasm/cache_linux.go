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

// codes stores compiled modules. Compiled code is native code, so only files made by this gateway
// are valid: each file ends with a MAC over its name and its content.
type codes struct {
	dir string
	key []byte
}

// codeName identifies the code of a module. The same module has different code for another
// worker, another engine or other features.
type codeName [sha256.Size]byte

func (n codeName) String() string { return hex.EncodeToString(n[:]) }

func (c codes) mac(name codeName, code []byte) []byte {
	m := hmac.New(sha256.New, c.key)
	_, _ = m.Write(name[:]) // writing to a hash never fails
	_, _ = m.Write(code)
	return m.Sum(nil)
}

func (c codes) path(name codeName) string { return filepath.Join(c.dir, name.String()+".code") }

// errForged reports a file that is damaged or was written by another process.
var errForged = errors.New("the file was not written by palyrad")

// read returns the code as a sealed memory file, nil if it does not exist.
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

// write stores the code of a module for later starts of palyrad.
func (c codes) write(name codeName, code []byte) error {
	f, err := os.CreateTemp(c.dir, "new-*")
	if err != nil {
		return fmt.Errorf("storing compiled code: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(code[:len(code):len(code)], c.mac(name, code)...))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path(name))
	}
	if err != nil {
		return fmt.Errorf("storing compiled code: %w", err)
	}
	return nil
}

// readKey returns the key of the MAC and creates it on first use.
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
		err = fmt.Errorf("%s has %d bytes, but must have %d; remove it to compile all modules again", name, len(key), sha256.Size)
	}
	return key, err
}

func (c codes) remove(name codeName) error { return os.Remove(c.path(name)) }
