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

// file is an entry as a test writes it.
type file struct {
	name, text string
	change     func(h *zip.FileHeader)
}

// filesOf are the entries of a package.
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

// zipped writes entries as the format has them, but for what a test changes.
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
	// Signed again it is the same file, and by somebody else it is theirs.
	if again := must.Get(skill.Sign(p, key))(t); !bytes.Equal(again, data) {
		t.Error("the same entries and key gave another file")
	}
	if theirs := must.Get(verify(must.Get(skill.Sign(p, other))(t)))(t); theirs.KeyID == signer.KeyID {
		t.Error("two keys have one id")
	}
}

// TestOpenRefuses has files that are no packages, by what they are made of.
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
	// A directory whose numbers are another's: two entries of one content.
	data := signed(t)
	commented := append(append([]byte{}, data[:len(data)-2]...), 3, 0, 'a', 'b', 'c')
	for name, c := range map[string]struct {
		data  []byte
		wants string
		code  reason.Code
	}{
		"nothing":             {nil, "it does not begin as a zip file does", ""},
		"text":                {[]byte(strings.Repeat("text ", 100)), "it does not begin", ""},
		"too large":           {make([]byte, skill.MaxPackage+1), "67108864 are allowed", reason.InputTooLarge},
		"too many entries":    {zipped(t, many...), "256 are allowed", reason.InputTooLarge},
		"a long directory":    {manyEntries(t, data), "the directory of the package has", reason.InputTooLarge},
		"a hidden directory":  {hiddenEntries(t, data), "does not stand between its last entry and its end", ""},
		"cut off":             {data[:len(data)-1], "something was cut off", ""},
		"bytes behind":        {append(append([]byte{}, data...), 0), "stands behind it", ""},
		"a comment":           {commented, "stands behind it", ""},
		"bytes before":        {append([]byte("PK\x03\x04"), data...), "does not stand between its last entry and its end", ""},
		"up and out":          {also(file{name: "../../x"}), `"../../x" leads out`, ""},
		"absolute":            {also(file{name: "/x"}), `"/x" leads out`, ""},
		"a drive":             {also(file{name: `c:\x`}), `leads out`, ""},
		"a backslash":         {also(file{name: `modules\x.wasm`}), `leads out`, ""},
		"up within":           {also(file{name: "modules/../skill.toml"}), `leads out`, ""},
		"a directory":         {also(file{name: "modules/", change: func(h *zip.FileHeader) {}}), `is a directory`, ""},
		"an unknown entry":    {also(file{name: "setup.sh", text: "x"}), `"setup.sh" belongs to no package`, ""},
		"a module elsewhere":  {also(file{name: "modules/a/b.wasm", text: "x"}), `belongs to no package`, ""},
		"a name twice":        {also(file{name: "skill.toml", text: manifest}), `"skill.toml" and "skill.toml" have one name`, ""},
		"a name in two cases": {also(file{name: "Skill.toml", text: manifest}), `have one name`, ""},
		"a link":              {also(file{name: "modules/x.wasm", text: "/", change: func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }}), "is a link", ""},
		"a device":            {also(file{name: "modules/x.wasm", text: "/", change: func(h *zip.FileHeader) { h.SetMode(fs.ModeDevice | 0o666) }}), "is a link, or a file of another kind", ""},
		"encrypted":           {changed(func(h *zip.FileHeader) { h.Flags |= 1 }), `"modules/notes.wasm" is encrypted`, ""},
		"compressed":          {changed(func(h *zip.FileHeader) { h.Method = zip.Deflate }), "is compressed", ""},
		"a bomb":              {changed(func(h *zip.FileHeader) { h.UncompressedSize64 = 1 << 31 }), "a stored entry is as large as it is", ""},
		"another version":     {changed(func(h *zip.FileHeader) { h.ReaderVersion = 45 }), `the header or the place of the entry "modules/notes.wasm" is not as the format has it`, ""},
		"a field of its own":  {changed(func(h *zip.FileHeader) { h.Extra = []byte{0, 0, 1, 0, 9} }), "does not stand where", ""},
		"an entry's comment":  {changed(func(h *zip.FileHeader) { h.Comment = "hello" }), "belong to no entry", ""},
		"another checksum":    {changed(func(h *zip.FileHeader) { h.CRC32++ }), `"modules/notes.wasm" was changed`, ""},
		"another order":       {zipped(t, append(append([]file{}, good[1:]...), good[0])...), "is not as the format has it", ""},
		"no manifest":         {zipped(t, good[1:]...), "has no skill.toml", ""},
		"a large text":        {zipped(t, append([]file{good[0], good[1], {name: "sbom.cdx.json", text: strings.Repeat(" ", skill.MaxText+1)}}, good[3:]...)...), "4194304 are allowed", reason.InputTooLarge},
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
	// The control: written by this test in the same way, unchanged, it is a package.
	if _, err := verify(zipped(t, good...)); err != nil {
		t.Error(err)
	}
}

// entriesOf is the directory of a package, and where it begins.
func entriesOf(data []byte) (directory []byte, begins int) {
	end := data[len(data)-22:]
	begins = int(binary.LittleEndian.Uint32(end[16:]))
	return data[begins : len(data)-22], begins
}

// manyEntries has its directory a thousand times, and says that it has as many entries as
// before.
func manyEntries(t *testing.T, data []byte) []byte {
	t.Helper()
	directory, begins := entriesOf(data)
	many := bytes.Repeat(directory, 1000)
	end := append([]byte{}, data[len(data)-22:]...)
	binary.LittleEndian.PutUint32(end[12:], uint32(len(many)))
	return slices.Concat(data[:begins], many, end)
}

// hiddenEntries says that its long directory is a short one.
func hiddenEntries(t *testing.T, data []byte) []byte {
	t.Helper()
	directory, _ := entriesOf(data)
	long := manyEntries(t, data)
	binary.LittleEndian.PutUint32(long[len(long)-22+12:], uint32(len(directory)))
	return long
}

// TestTampering: what is changed after signing is refused by its name, also where the zip
// file around it was made anew to fit.
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
		"the publisher":   {swap("skill.toml", replace("example.org\"\n", "example.com\"\n")), `publisher is "example.com", and "example.org" was signed`},
		"the version":     {swap("skill.toml", replace("1.2.3", "9.9.9")), `version is "9.9.9", and "1.2.3" was signed`},
		"the id":          {swap("skill.toml", replace(`id = "notes"`, `id = "other"`)), `id is "other", and "notes" was signed`},
		"the module":      {swap("modules/notes.wasm", func(s string) string { return s + "\x00\x01\x00" }), `the entry "modules/notes.wasm" was changed`},
		"the bill":        {swap("sbom.cdx.json", replace("1.26.0", "1.26.1")), `the entry "sbom.cdx.json" was changed`},
		"the provenance":  {swap("provenance.json", replace("go1.26.0", "go1.26.1")), `the entry "provenance.json" was changed`},
		"no provenance":   {drop("provenance.json"), `the entry "provenance.json" was signed, and is not there`},
		"no module":       {drop("modules/notes.wasm"), `the entry "modules/notes.wasm" was signed, and is not there`},
		"no signature":    {drop("signature.dsse.json"), "it is not signed"},
		"one module more": {append(append(append([]file{}, good[:2]...), file{name: "modules/z.wasm", text: command}), good[2:]...), `the entry "modules/z.wasm" was not signed`},
		"the signature":   {swap("signature.dsse.json", func(s string) string { return resigned(t, s, nil, func(sig []byte) { sig[0]++ }) }), "signature does not match"},
		"what is signed": {swap("signature.dsse.json", func(s string) string {
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

// resigned changes an envelope from inside.
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

// TestEveryByte: there is no byte of the file that can be changed. The control is the file
// as it is.
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

// FuzzOpen: whatever the bytes, they end as a package or an error with a code, and what is
// taken is written again as it was.
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
