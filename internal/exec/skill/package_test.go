package skill_test

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
)

// file is an entry written by a test.
type file struct {
	name, text string
	change     func(h *zip.FileHeader)
}

// filesOf returns the entries of a package.
func filesOf(t testing.TB, data []byte) []file {
	t.Helper()
	var out []file
	for _, f := range must.Get(zip.NewReader(bytes.NewReader(data), int64(len(data))))(t).File {
		var text bytes.Buffer
		must.Get(text.ReadFrom(must.Get(f.Open())(t)))(t)
		out = append(out, file{name: f.Name, text: text.String()})
	}
	return out
}

// zipped writes entries like the format requires, except for the changes of a test.
func zipped(t testing.TB, files ...file) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, ReaderVersion: 20, CRC32: crc32.ChecksumIEEE([]byte(f.text)), CompressedSize64: uint64(len(f.text)), UncompressedSize64: uint64(len(f.text))}
		if f.change != nil {
			f.change(h)
		}
		must.Get(must.Get(w.CreateRaw(h))(t).Write([]byte(f.text)))(t)
	}
	must.Do(t, w.Close())
	return out.Bytes()
}

func verify(data []byte) (skill.Signer, error) {
	p, err := skill.Open(data)
	if err != nil {
		return skill.Signer{}, err
	}
	return skill.Verify(p)
}

func TestOpen(t *testing.T) {
	t.Parallel()
	data := signed(t)
	p := must.Get(skill.Open(data))(t)
	signer := must.Get(skill.Verify(p))(t)
	if signer.Publisher != "example.org" || !signer.PublicKey.Equal(key.Public()) || !strings.HasPrefix(signer.KeyID, "SHA256:") {
		t.Errorf("%+v", signer)
	}
	if p.Manifest.ID != "notes" || string(p.Modules["modules/notes.wasm"]) != command || !strings.HasPrefix(p.Digest, "sha256:") || len(p.SBOM) == 0 || len(p.Provenance) == 0 {
		t.Errorf("%+v", p)
	}
	// Signing again results in the same file, and another signer results in another one.
	if again := must.Get(skill.Sign(p, key))(t); !bytes.Equal(again, data) {
		t.Error("the same entries and key gave another file")
	}
	if theirs := must.Get(verify(must.Get(skill.Sign(p, other))(t)))(t); theirs.KeyID == signer.KeyID {
		t.Error("two keys have one id")
	}
}

// TestOpenRefuses covers invalid packages.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	good := filesOf(t, signed(t))
	also := func(f file) []byte { return zipped(t, append(append([]file{}, good...), f)...) }
	changed := func(change func(h *zip.FileHeader)) []byte {
		files := append([]file{}, good...)
		files[1].change = change
		return zipped(t, files...)
	}
	many := append([]file{}, good...)
	for i := range skill.MaxEntries {
		many = append(many, file{name: fmt.Sprintf("modules/m%d.wasm", i), text: "x"})
	}
	// commented ends with a zip comment.
	data := signed(t)
	commented := append(append([]byte{}, data[:len(data)-2]...), 3, 0, 'a', 'b', 'c')
	for name, c := range map[string]struct {
		data  []byte
		wants string
		code  reason.Code
	}{
		"nothing":             {nil, "it does not begin as a zip file does", ""},
		"text":                {[]byte(strings.Repeat("text ", 100)), "it does not begin", ""},
		"too large":           {make([]byte, skill.MaxPackage+1), "the limit is 67108864", reason.InputTooLarge},
		"too many entries":    {zipped(t, many...), "the limit is 256", reason.InputTooLarge},
		"a long directory":    {manyEntries(t, data), "the directory of the package has", reason.InputTooLarge},
		"a hidden directory":  {hiddenEntries(t, data), "is not between its last entry and its end", ""},
		"cut off":             {data[:len(data)-1], "it is truncated", ""},
		"bytes behind":        {append(append([]byte{}, data...), 0), "has extra data at the end", ""},
		"a comment":           {commented, "has extra data at the end", ""},
		"bytes before":        {append([]byte("PK\x03\x04"), data...), "is not between its last entry and its end", ""},
		"up and out":          {also(file{name: "../../x"}), `"../../x" leads out`, ""},
		"absolute":            {also(file{name: "/x"}), `"/x" leads out`, ""},
		"a drive":             {also(file{name: `c:\x`}), `leads out`, ""},
		"a backslash":         {also(file{name: `modules\x.wasm`}), `leads out`, ""},
		"up within":           {also(file{name: "modules/../skill.toml"}), `leads out`, ""},
		"a directory":         {also(file{name: "modules/", change: func(h *zip.FileHeader) {}}), `is a directory`, ""},
		"an unknown entry":    {also(file{name: "setup.sh", text: "x"}), `"setup.sh" is not allowed in a package`, ""},
		"a module elsewhere":  {also(file{name: "modules/a/b.wasm", text: "x"}), `is not allowed in a package`, ""},
		"a name twice":        {also(file{name: "skill.toml", text: manifest}), `"skill.toml" and "skill.toml" have the same name`, ""},
		"a name in two cases": {also(file{name: "Skill.toml", text: manifest}), `have the same name`, ""},
		"a link":              {also(file{name: "modules/x.wasm", text: "/", change: func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }}), "is a link", ""},
		"a device":            {also(file{name: "modules/x.wasm", text: "/", change: func(h *zip.FileHeader) { h.SetMode(fs.ModeDevice | 0o666) }}), "is a link or another special file", ""},
		"encrypted":           {changed(func(h *zip.FileHeader) { h.Flags |= 1 }), `"modules/notes.wasm" is encrypted`, ""},
		"compressed":          {changed(func(h *zip.FileHeader) { h.Method = zip.Deflate }), "is compressed", ""},
		"a bomb":              {changed(func(h *zip.FileHeader) { h.UncompressedSize64 = 1 << 31 }), "both sizes of a stored entry must be equal", ""},
		"another version":     {changed(func(h *zip.FileHeader) { h.ReaderVersion = 45 }), `the header or the place of the entry "modules/notes.wasm" does not follow the format`, ""},
		"a field of its own":  {changed(func(h *zip.FileHeader) { h.Extra = []byte{0, 0, 1, 0, 9} }), "does not begin where", ""},
		"an entry's comment":  {changed(func(h *zip.FileHeader) { h.Comment = "hello" }), "outside of its entries", ""},
		"another checksum":    {changed(func(h *zip.FileHeader) { h.CRC32++ }), `"modules/notes.wasm" was changed`, ""},
		"another order":       {zipped(t, append(append([]file{}, good[1:]...), good[0])...), "does not follow the format", ""},
		"no manifest":         {zipped(t, good[1:]...), "does not contain skill.toml", ""},
		"a large text":        {zipped(t, append([]file{good[0], good[1], {name: "sbom.cdx.json", text: strings.Repeat(" ", skill.MaxText+1)}}, good[3:]...)...), "the limit is 4194304", reason.InputTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := skill.Open(c.data)
			if c.code == "" {
				c.code = reason.InvalidInput
			}
			if err == nil || !strings.Contains(err.Error(), c.wants) || reason.Of(err) != c.code {
				t.Errorf("got %v (%s), want %q", err, reason.Of(err), c.wants)
			}
		})
	}
	// Control: the same package is valid if this test writes it without changes.
	if _, err := verify(zipped(t, good...)); err != nil {
		t.Error(err)
	}
}

// entriesOf returns the directory of a package, and its offset.
func entriesOf(data []byte) (directory []byte, begins int) {
	end := data[len(data)-22:]
	begins = int(binary.LittleEndian.Uint32(end[16:]))
	return data[begins : len(data)-22], begins
}

// manyEntries repeats the directory a thousand times, but keeps the declared number of entries.
func manyEntries(t *testing.T, data []byte) []byte {
	t.Helper()
	directory, begins := entriesOf(data)
	many := bytes.Repeat(directory, 1000)
	end := append([]byte{}, data[len(data)-22:]...)
	binary.LittleEndian.PutUint32(end[12:], uint32(len(many)))
	return slices.Concat(data[:begins], many, end)
}

// hiddenEntries declares a size for the directory that is smaller than its actual size.
func hiddenEntries(t *testing.T, data []byte) []byte {
	t.Helper()
	directory, _ := entriesOf(data)
	long := manyEntries(t, data)
	binary.LittleEndian.PutUint32(long[len(long)-22+12:], uint32(len(directory)))
	return long
}

// TestTampering: an entry that was changed after signing is refused by name, even if the zip
// file is rebuilt to match.
func TestTampering(t *testing.T) {
	t.Parallel()
	good := filesOf(t, signed(t))
	index := map[string]int{}
	for i, f := range good {
		index[f.name] = i
	}
	swap := func(name string, change func(string) string) []file {
		files := append([]file{}, good...)
		at := index[name]
		files[at].text = change(files[at].text)
		return files
	}
	replace := func(old, text string) func(string) string {
		return func(s string) string {
			if !strings.Contains(s, old) {
				t.Fatalf("%q is not in %q", old, s)
			}
			return strings.Replace(s, old, text, 1)
		}
	}
	drop := func(name string) []file {
		at := index[name]
		return append(append([]file{}, good[:at]...), good[at+1:]...)
	}
	for name, c := range map[string]struct {
		files []file
		wants string
	}{
		"the manifest":    {swap("skill.toml", replace("risk = 20", "risk = 1")), `the entry "skill.toml" was changed`},
		"more asked for":  {swap("skill.toml", replace(`"api.example.org:443"`, `"api.example.org:443", "evil.example"`)), `the entry "skill.toml" was changed`},
		"the publisher":   {swap("skill.toml", replace("example.org\"\n", "example.com\"\n")), `publisher "example.com", but "example.org" was signed`},
		"the version":     {swap("skill.toml", replace("1.2.3", "9.9.9")), `version "9.9.9", but "1.2.3" was signed`},
		"the id":          {swap("skill.toml", replace(`id = "notes"`, `id = "other"`)), `id "other", but "notes" was signed`},
		"the module":      {swap("modules/notes.wasm", func(s string) string { return s + "\x00\x01\x00" }), `the entry "modules/notes.wasm" was changed`},
		"the bill":        {swap("sbom.cdx.json", replace("1.26.0", "1.26.1")), `the entry "sbom.cdx.json" was changed`},
		"the provenance":  {swap("provenance.json", replace("go1.26.0", "go1.26.1")), `the entry "provenance.json" was changed`},
		"no provenance":   {drop("provenance.json"), `the entry "provenance.json" was signed, but is missing`},
		"no module":       {drop("modules/notes.wasm"), `the entry "modules/notes.wasm" was signed, but is missing`},
		"no signature":    {drop("signature.dsse.json"), "it is not signed"},
		"one module more": {append(append(append([]file{}, good[:2]...), file{name: "modules/z.wasm", text: command}), good[2:]...), `the entry "modules/z.wasm" was not signed`},
		"the signature":   {swap("signature.dsse.json", func(s string) string { return resigned(t, s, nil, func(sig []byte) { sig[0]++ }) }), "signature does not match"},
		"signed data": {swap("signature.dsse.json", func(s string) string {
			return resigned(t, s, func(p string) string { return strings.Replace(p, "1.2.3", "1.2.4", 1) }, nil)
		}), "signature does not match"},
		"a key in between": {swap("signature.dsse.json", func(s string) string { return resigned(t, s, anotherKey, nil) }), "it names the key"},
		"an unknown claim": {swap("signature.dsse.json", func(s string) string {
			return resigned(t, s, func(p string) string { return `{"more":1,` + p[1:] }, nil)
		}), "reading its payload"},
		"no envelope":       {swap("signature.dsse.json", func(string) string { return "{}" }), "payload type"},
		"another's payload": {swap("signature.dsse.json", replace("vnd.palyra.skill", "vnd.other.thing")), "payload type"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify(zipped(t, c.files...))
			if err == nil || !strings.Contains(err.Error(), c.wants) || reason.Of(err) != reason.VerificationFailed {
				t.Errorf("got %v (%s), want %q", err, reason.Of(err), c.wants)
			}
		})
	}
}

// resigned modifies the content of an envelope.
func resigned(t *testing.T, text string, payload func(string) string, sig func([]byte)) string {
	t.Helper()
	var e struct {
		Payload     string `json:"payload"`
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			KeyID string `json:"keyid"`
			Sig   string `json:"sig"`
		} `json:"signatures"`
	}
	must.Do(t, json.Unmarshal([]byte(text), &e))
	if payload != nil {
		e.Payload = base64.StdEncoding.EncodeToString([]byte(payload(string(must.Get(base64.StdEncoding.DecodeString(e.Payload))(t)))))
	}
	if sig != nil {
		raw := must.Get(base64.StdEncoding.DecodeString(e.Signatures[0].Sig))(t)
		sig(raw)
		e.Signatures[0].Sig = base64.StdEncoding.EncodeToString(raw)
	}
	return string(must.Get(json.Marshal(e))(t))
}

func anotherKey(payload string) string {
	theirs := base64.StdEncoding.EncodeToString(other.Public().(ed25519.PublicKey))
	ours := base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
	return strings.Replace(payload, ours, theirs, 1)
}

// TestEveryByte: a change of any byte of the file is detected. Control: the unchanged file.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	data := signed(t)
	if _, err := verify(data); err != nil {
		t.Fatal(err)
	}
	for at := range data {
		for _, bit := range []byte{1, 0x80} {
			data[at] ^= bit
			_, err := verify(data)
			if err == nil || reason.Of(err) == reason.Internal || len(err.Error()) < 20 {
				t.Errorf("byte %d, bit %#x: %v", at, bit, err)
			}
			data[at] ^= bit
		}
	}
}

// FuzzOpen: any bytes result in a package or an error with a code. An accepted package is
// written back unchanged.
func FuzzOpen(f *testing.F) {
	f.Add(signed(f))
	f.Add(must.Get(skill.Pack(unsigned(f, manifest)))(f))
	f.Add(zipped(f, file{name: "skill.toml", text: manifest}))
	f.Add(zipped(f, file{name: "skill.toml", text: manifest}, file{name: "../x", text: "y"}))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := skill.Open(data)
		if err != nil {
			if reason.Of(err) == reason.Internal {
				t.Fatalf("%v", err)
			}
			return
		}
		if again, err := skill.Pack(p); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("it is written in another way: %v", err)
		}
		_, _ = skill.Verify(p)
		_ = skill.Audit(p, skill.DefaultLimits())
	})
}
