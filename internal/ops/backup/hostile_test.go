package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"filippo.io/age"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
)

// part is an entry of a forged archive.
type part struct {
	header tar.Header
	data   []byte
	// hole is the number of zeros of a sparse entry, which are not stored.
	hole int
}

// sparse returns the entry of a file that consists of a hole (GNU sparse format 1.0 in pax
// records), which tar.Writer does not write.
func (p part) sparse(t *testing.T) []byte {
	t.Helper()
	var records string
	for _, r := range [][2]string{{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}, {"GNU.sparse.name", p.header.Name}, {"GNU.sparse.realsize", strconv.Itoa(p.hole)}} {
		line := fmt.Sprintf(" %s=%s\n", r[0], r[1])
		n := len(line) + 2 // the length counts its own two digits
		records += strconv.Itoa(n) + line
	}
	var out bytes.Buffer
	for _, entry := range []struct{ kind, name, data string }{{"x", "pax", records}, {"0", "GNUSparseFile.0/x", "0\n"}} {
		block := make([]byte, 512)
		copy(block, entry.name)
		copy(block[100:], "0000600\x000000000\x000000000\x00")
		copy(block[124:], fmt.Sprintf("%011o\x0000000000000\x00        %s", map[bool]int{true: len(entry.data), false: 512}[entry.kind == "x"], entry.kind))
		copy(block[257:], "ustar\x0000")
		sum := 0
		for _, b := range block {
			sum += int(b)
		}
		copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
		data := make([]byte, 512)
		if copy(data, entry.data) != len(entry.data) {
			t.Fatal("the entry has more than a block")
		}
		out.Write(slices.Concat(block, data))
	}
	return out.Bytes()
}

// parts reads a backup as its owner can, so that a test can write it again with a change.
func (w *world) parts(from string) (m Manifest, list []part) {
	w.t.Helper()
	file := must.Get(os.Open(from))(w.t)
	defer file.Close()
	in := tar.NewReader(must.Get(age.Decrypt(file, w.identity))(w.t))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Do(w.t, err)
		list = append(list, part{header: *h, data: must.Get(io.ReadAll(in))(w.t)})
	}
	m = must.Get(parseManifest(list[0].data))(w.t)
	return m, list
}

// pack writes an archive, as anyone with the recipient can.
func (w *world) pack(list []part, trailer string) string {
	w.t.Helper()
	var out bytes.Buffer
	sealed := must.Get(age.Encrypt(&out, w.identity.Recipient()))(w.t)
	archive := tar.NewWriter(sealed)
	for _, p := range list {
		if p.hole > 0 {
			must.Do(w.t, archive.Flush())
			must.Get(sealed.Write(p.sparse(w.t)))(w.t)
			continue
		}
		if p.header.Typeflag == tar.TypeReg {
			p.header.Size = int64(len(p.data))
		}
		must.Do(w.t, archive.WriteHeader(&p.header))
		must.Get(archive.Write(p.data))(w.t)
	}
	must.Do(w.t, archive.Close())
	must.Get(io.WriteString(sealed, trailer))(w.t)
	must.Do(w.t, sealed.Close())
	path := filepath.Join(w.dir, "hostile.age")
	must.Do(w.t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

// resign signs a changed manifest with the gateway's own key, so that only the tested change is
// wrong.
func (w *world) resign(m Manifest, list []part) {
	w.t.Helper()
	key := must.Get(journal.ParseKey(w.authority.Journal.Signer()))(w.t)
	list[0].data = must.Get(m.sign(key))(w.t)
}

func (w *world) find(list []part, name string) *part {
	w.t.Helper()
	for i := range list {
		if list[i].header.Name == name {
			return &list[i]
		}
	}
	w.t.Fatalf("there is no %s", name)
	return nil
}

func described(p part) File {
	sum := sha256.Sum256(p.data)
	return File{p.header.Name, int64(len(p.data)), hex.EncodeToString(sum[:])}
}

func regular(name, data string) part {
	return part{header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600}, data: []byte(data)}
}

// A forged or changed archive writes no file outside the directory and leaves no files. Each
// differs in one property from an archive that is restored.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	canary := filepath.Join(w.dir, "canary")
	must.Do(t, os.WriteFile(canary, []byte("mine"), 0o600))
	original := w.backUp()
	tests := map[string]struct {
		change  func(m *Manifest, list []part) []part
		trailer string
		ok      bool
	}{
		"unchanged": {change: func(_ *Manifest, list []part) []part { return list }, ok: true},
		"one more policy": {ok: true, change: func(m *Manifest, list []part) []part {
			p := regular("policy/99-more.cedar", "x")
			m.Files = append(m.Files, described(p))
			return append(list, p)
		}},
		"a file that is not listed": {change: func(_ *Manifest, list []part) []part { return append(list, regular("policy/x.cedar", "x")) }},
		"a file that is missing":    {change: func(_ *Manifest, list []part) []part { return list[:len(list)-1] }},
		"another order": {change: func(_ *Manifest, list []part) []part {
			n := len(list)
			list[n-1], list[n-2] = list[n-2], list[n-1]
			return list
		}},
		"another content of the same size": {change: func(_ *Manifest, list []part) []part {
			w.find(list, "state/vault.kek").data = []byte("kei")
			return list
		}},
		"another size": {change: func(_ *Manifest, list []part) []part {
			w.find(list, "state/vault.kek").data = []byte("longer")
			return list
		}},
		"a link in the place of a file": {change: func(_ *Manifest, list []part) []part {
			p := w.find(list, "state/vault.kek")
			p.header.Typeflag, p.header.Linkname, p.data = tar.TypeSymlink, canary, nil
			return list
		}},
		"a link that the manifest describes": {change: func(m *Manifest, list []part) []part {
			p := w.find(list, "state/vault.kek")
			p.header.Typeflag, p.header.Linkname, p.header.Size, p.data = tar.TypeSymlink, canary, 0, nil
			for i := range m.Files {
				if m.Files[i].Name == p.header.Name {
					m.Files[i] = described(*p)
				}
			}
			return list
		}},
		"a hard link": {change: func(_ *Manifest, list []part) []part {
			p := w.find(list, "state/vault.kek")
			p.header.Typeflag, p.header.Linkname, p.data = tar.TypeLink, canary, nil
			return list
		}},
		"a directory": {change: func(_ *Manifest, list []part) []part {
			p := w.find(list, "state/vault.kek")
			p.header.Typeflag, p.data = tar.TypeDir, nil
			return list
		}},
		"a link to write through": {change: func(m *Manifest, list []part) []part {
			link := part{header: tar.Header{Typeflag: tar.TypeSymlink, Name: "policy/out", Linkname: w.dir, Mode: 0o777}}
			behind := regular("policy/out/canary", "theirs")
			m.Files = append(m.Files, described(link), described(behind))
			return append(list, link, behind)
		}},
		"a manifest that another key signed": {change: func(m *Manifest, list []part) []part {
			list[0].data = must.Get(m.sign(must.Get(journal.ParseKey(newWorld(t, 1).authority.Journal.Signer()))(t)))(t)
			return list
		}},
		"a manifest of another head": {change: func(m *Manifest, list []part) []part {
			m.Size--
			return list
		}},
		"a head of another journal": {change: func(m *Manifest, list []part) []part {
			key := must.Get(journal.ParseKey(w.authority.Journal.Signer()))(t)
			cp := must.Get(journal.SignCheckpoint(key, m.Size, [32]byte{7}))(t)
			m.Checkpoint, m.Root = cp.Note, hex.EncodeToString(cp.Root[:])
			return list
		}},
		"another CA": {change: func(m *Manifest, list []part) []part {
			m.CARoot = "sha256:" + strings.Repeat("0", 64)
			return list
		}},
		// An attacker can copy the CA's fingerprint to an archive of another CA, and claim that its
		// keys are in a TPM, where they cannot be checked.
		"another CA, whose keys are said to be in a TPM": {change: func(m *Manifest, list []part) []part {
			m.CARoot = "sha256:" + strings.Repeat("0", 64)
			m.Keys = append(m.Keys, Key{"root", ca.PlaceTPM, "a chip"})
			return list
		}},
		"a hole that takes no room in the archive": {change: func(m *Manifest, list []part) []part {
			zeros := regular("policy/hole.cedar", strings.Repeat("\x00", 1<<20))
			m.Files = append(m.Files, described(zeros))
			return append(list, part{header: zeros.header, hole: len(zeros.data)})
		}},
		"a later format": {change: func(m *Manifest, list []part) []part {
			m.Format++
			return list
		}},
		"more after the end": {change: func(_ *Manifest, list []part) []part { return list }, trailer: strings.Repeat("more", 300)},
		"endless zeros":      {change: func(_ *Manifest, list []part) []part { return list }, trailer: strings.Repeat("\x00", 4096)},
	}
	for _, name := range []string{
		"../canary", "state/../../canary", "/" + canary, "state/ca/../../../canary", "policy/../../canary", `state\..\..\canary`, "c:/canary",
		"state/restored/not-started.json", "restored/not-started.json", "state/palyrad.lock", "state/palyra.db-wal", "state/notes.txt", "config/other.toml",
		"state/vault.kek", "STATE/vault.kek", "policy", "policy/", "state/ca", "state/ca/root.pem/below", "", ".", "policy/a\x00b", "policy/a\nb",
	} {
		tests["the name "+name] = struct {
			change  func(m *Manifest, list []part) []part
			trailer string
			ok      bool
		}{change: func(m *Manifest, list []part) []part {
			p := regular(name, "theirs")
			m.Files = append(m.Files, described(p))
			if strings.Contains(name, "\x00") || name == "" || strings.HasSuffix(name, "/") {
				return list // tar has no file with such a name
			}
			return append(list, p)
		}}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, list := w.parts(original)
			signed := list[0].data
			list = tt.change(&m, list)
			if bytes.Equal(signed, list[0].data) {
				w.resign(m, list)
			}
			_, err := Restore(t.Context(), w.pack(list, tt.trailer), w.target())
			if tt.ok {
				must.Do(t, err)
				must.Do(t, os.RemoveAll(w.target().Dir))
			} else if err == nil {
				t.Error("it was restored")
				must.Do(t, os.RemoveAll(w.target().Dir))
			}
			if text := string(must.Get(os.ReadFile(canary))(t)); text != "mine" {
				t.Fatalf("the canary says %q", text)
			}
			nothingBeside(t, w, "backup.age", "canary", "hostile.age", "palyra.toml", "policy", "restored", "state")
		})
	}
}

// A changed or missing byte anywhere in the file is detected.
func TestDamagedArchives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	whole := must.Get(os.ReadFile(w.backUp()))(t)
	path := filepath.Join(w.dir, "damaged.age")
	refused := func(what string, at int, data []byte) {
		t.Helper()
		must.Do(t, os.WriteFile(path, data, 0o600))
		_, err := Restore(t.Context(), path, w.target())
		if code := reason.Of(err); code != reason.VerificationFailed && code != reason.InvalidInput {
			t.Errorf("%s at %d: %v", what, at, err)
		}
		if _, err := os.Lstat(w.target().Dir); err == nil {
			t.Fatalf("%s at %d was restored", what, at)
		}
	}
	// These are offsets in the version line, the stanza, the MAC, the nonce, the first block,
	// blocks between, and the last one.
	for _, at := range []int{0, 15, 25, 60, 110, 150, 200, 232, 240, 300, 64 << 10, len(whole) / 2, len(whole) - 17, len(whole) - 1} {
		data := bytes.Clone(whole)
		data[at] ^= 0x40
		refused("a changed byte", at, data)
		refused("the end", at, whole[:at])
	}
	refused("a byte more", len(whole), append(bytes.Clone(whole), 0))
	must.Do(t, os.WriteFile(path, whole, 0o600)) // control
	must.Get(Restore(t.Context(), path, w.target()))(t)
}

// The limits are checked before anything is written.
func TestManifestLimits(t *testing.T) {
	t.Parallel()
	good := Manifest{Format: Format, Files: []File{{Name: storeName, Size: 1 << 40}}}
	must.Do(t, good.check())
	for name, change := range map[string]func(*Manifest){
		"no store":        func(m *Manifest) { m.Files = nil },
		"a negative size": func(m *Manifest) { m.Files = append(m.Files, File{Name: "policy/a", Size: -1}) },
		"too large":       func(m *Manifest) { m.Files = append(m.Files, File{Name: "policy/a", Size: maxFile + 1}) },
		"too many":        func(m *Manifest) { m.Files = append(m.Files, make([]File, maxFiles)...) },
		"twice":           func(m *Manifest) { m.Files = append(m.Files, File{Name: "policy/a"}, File{Name: "policy/A"}) },
	} {
		m := good
		m.Files = append([]File(nil), good.Files...)
		if change(&m); m.check() == nil {
			t.Errorf("%s was taken", name)
		}
	}
	var big bytes.Buffer
	archive := tar.NewWriter(&big)
	must.Do(t, archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Size: maxManifest + 1}))
	if _, _, err := readManifest(tar.NewReader(&big)); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("a manifest that is too large: %v", err)
	}
	if text := must.Get(json.Marshal(good))(t); len(text) == 0 {
		t.Error("no manifest")
	}
}
