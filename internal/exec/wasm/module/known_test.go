package module

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"palyra/internal/core/must"
)

// numbered returns an empty command that a custom section makes unique.
func numbered(n int) []byte {
	const smallest = "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x01\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00\x0a\x04\x01\x02\x00\x0b"
	return binary.LittleEndian.AppendUint32(append([]byte(smallest), 0, 6, 1, 'n'), uint32(n))
}

// TestKnown: a cached result equals the result of Check and is not computed again. Other limits
// or another byte require another check.
func TestKnown(t *testing.T) {
	t.Parallel()
	k := &Known{}
	module, wide := numbered(1), DefaultLimits()
	first, digest, err := k.Check(module, wide)
	must.Do(t, err)
	if digest != sha256.Sum256(module) || first.Kind != Command {
		t.Errorf("%x %+v", digest, first)
	}
	if again, _, _ := k.Check(bytes.Clone(module), wide); again != first {
		t.Error("the same module was read again")
	}
	narrow := wide
	narrow.MemoryPages = 0
	if _, _, err := k.Check(module, narrow); err == nil {
		t.Error("it is known under limits that refuse it")
	}
	broken := bytes.Clone(module)
	broken[len(broken)-9]++ // the opcode at the end of its function
	for range 2 {
		if _, _, err := k.Check(broken, wide); err == nil {
			t.Error("a module is known by the bytes of another one")
		}
	}
	narrow = wide
	narrow.ModuleBytes = len(module) - 1
	if _, _, err := k.Check(module, narrow); err == nil {
		t.Error("it is too large, and known")
	}
	for n := range 10 * mostKnown {
		if _, _, err := k.Check(numbered(n), wide); err != nil || len(k.read) > mostKnown {
			t.Fatalf("%d modules are known; %v", len(k.read), err)
		}
	}
}
