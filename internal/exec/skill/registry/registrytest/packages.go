package registrytest

import (
	"crypto/ed25519"
	"encoding/binary"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
)

// Manifest is the manifest of a skill named notes without capabilities. With modifies it.
const Manifest = `format = "palyra-skill/v1"
id = "notes"
name = "Notes"
version = "1.0.0"
publisher = "example.org"

[[tools]]
id = "add"
description = "Add a note."
module = "modules/notes.wasm"
input_schema = '{"type": "object"}'

[tools.capabilities]
`

// command is the smallest valid wasip1 command.
const command = "\x00asm\x01\x00\x00\x00" +
	"\x01\x04\x01\x60\x00\x00" + // a type
	"\x03\x02\x01\x00" + // a function of that type
	"\x05\x03\x01\x00\x01" + // a memory
	"\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00" +
	"\x0a\x04\x01\x02\x00\x0b"

// Key derives a publisher's key from a word.
func Key(word string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(word+" ", ed25519.SeedSize))[:ed25519.SeedSize])
}

// Public returns the public half of a key.
func Public(key ed25519.PrivateKey) ed25519.PublicKey {
	public, _ := key.Public().(ed25519.PublicKey) // the assertion always succeeds
	return public
}

// With returns a manifest after replacements: old, new, old, new.
func With(t testing.TB, manifest string, pieces ...string) string {
	t.Helper()
	for n := 0; n < len(pieces); n += 2 {
		if !strings.Contains(manifest, pieces[n]) {
			t.Fatalf("the manifest does not contain %q", pieces[n])
		}
		manifest = strings.Replace(manifest, pieces[n], pieces[n+1], 1)
	}
	return manifest
}

// Package returns a package file with a manifest, signed by a key.
func Package(t testing.TB, manifest string, key ed25519.PrivateKey) []byte {
	t.Helper()
	return Padded(t, manifest, key, 0)
}

// Padded is Package with a module that is larger by the given number of bytes.
func Padded(t testing.TB, manifest string, key ed25519.PrivateKey, bytes int) []byte {
	t.Helper()
	module := []byte(command)
	if bytes > 0 { // a custom section with the name "x"
		size := binary.AppendUvarint(nil, uint64(bytes)+2)
		module = append(append(append(module, 0), size...), 1, 'x')
		module = append(module, make([]byte, bytes)...)
	}
	p := &skill.Package{ManifestText: []byte(manifest), Modules: map[string][]byte{"modules/notes.wasm": module}}
	p.Manifest = must.Get(skill.ParseManifest(p.ManifestText))(t)
	must.Do(t, p.Document(nil, nil))
	return must.Get(skill.Sign(p, key))(t)
}

// Stage uploads a package and returns its digest.
func Stage(t testing.TB, r *registry.Registry, by access.Caller, data []byte) string {
	t.Helper()
	digest := canonical.Digest(data)
	for at := 0; at < len(data); {
		part := data[at:min(at+registry.MaxPart, len(data))]
		at = int(must.Get(r.Stage(t.Context(), by, registry.Part{Digest: digest, Size: int64(len(data)), Offset: int64(at), Data: part}))(t))
	}
	return digest
}
