package skill_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/skill"
)

// manifest is a valid manifest; tests replace parts of it.
const manifest = `format = "palyra-skill/v1"
id = "notes"
name = "Notes"
version = "1.2.3"
publisher = "example.org"

[compatibility]
interface = "0.1.0"
palyra = "0.5.0"

[quotas]
wall_ms = 5000

[[tools]]
id = "add"
description = "Add a note."
module = "modules/notes.wasm"
fuel = 200_000_000
risk = 20
input_schema = '{"type": "object", "properties": {"text": {"type": "string"}}}'
output_schema = '{"type": "object"}'

[tools.features]
simd = true

[tools.capabilities]
http = ["api.example.org:443"]
secrets = [{name = "global/notes", use = "placeholder"}]
storage_bytes = 65536
`

// command is the smallest valid wasip1 command.
const command = "\x00asm\x01\x00\x00\x00" +
	"\x01\x04\x01\x60\x00\x00" + // a type
	"\x03\x02\x01\x00" + // a function of that type
	"\x05\x03\x01\x00\x01" + // a memory
	"\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00" +
	"\x0a\x04\x01\x02\x00\x0b"

var (
	key   = ed25519.NewKeyFromSeed([]byte("the publisher's key of this test"))
	other = ed25519.NewKeyFromSeed([]byte("a key of somebody else's entirely"[:32]))
)

// unsigned returns the package of the manifest, without a signature.
func unsigned(t testing.TB, text string) *skill.Package {
	t.Helper()
	p := &skill.Package{ManifestText: []byte(text), Modules: map[string][]byte{"modules/notes.wasm": []byte(command)}}
	p.Manifest = must.Get(skill.ParseManifest(p.ManifestText))(t)
	must.Do(t, p.Document([]skill.Library{{Name: "std", Version: "1.26.0", PURL: "pkg:golang/std@1.26.0"}}, map[string]skill.Origin{"modules/notes.wasm": {Toolchain: "go1.26.0"}}))
	return p
}

// signed returns the signed file of the unsigned package.
func signed(t testing.TB) []byte {
	t.Helper()
	return must.Get(skill.Sign(unsigned(t, manifest), key))(t)
}

// with returns the manifest with one part replaced.
func with(old, text string) string {
	if !strings.Contains(manifest, old) {
		panic(old)
	}
	return strings.Replace(manifest, old, text, 1)
}
