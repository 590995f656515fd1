package skill

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Extension is the file name extension of packages.
const Extension = ".palyra-skill"

// The limits of a package. They are checked before any content is read.
const (
	// MaxPackage is the maximum size of the file in bytes.
	MaxPackage = 64 << 20
	// MaxEntries is the maximum number of entries.
	MaxEntries = 256
	// MaxText is the maximum size of an entry that is not a module, in bytes.
	MaxText = 4 << 20
)

// The entries of a package other than its modules.
const (
	ManifestEntry   = "skill.toml"
	SBOMEntry       = "sbom.cdx.json"
	ProvenanceEntry = "provenance.json"
	SignatureEntry  = "signature.dsse.json"
	modulesDir      = "modules/"
)

// Package is the content of a file. It is unverified until Verify succeeds.
type Package struct {
	Manifest *Manifest
	// ManifestText is the original text of skill.toml.
	ManifestText []byte
	// Modules are the modules by entry name, such as modules/notes.wasm.
	Modules map[string][]byte
	// SBOM is a CycloneDX bill of materials, and Provenance an in-toto statement. They are nil if
	// the package lacks them, which Audit refuses.
	SBOM, Provenance []byte
	// Envelope is the signature, nil for an unsigned package.
	Envelope []byte
	// Digest is "sha256:" and the digest of the file.
	Digest string
	// checked caches the modules of a package that Open read.
	checked *checked
}

// Open reads a package. The file has exactly one valid form for its content: sorted entries,
// stored without compression, with no bytes before, between or after them. Any other form is
// refused before an entry is read. Two readers therefore see the same content, and a change of
// any byte requires a new signature. A zip file otherwise has many forms (times, extra fields,
// orders, deflate streams). Stored entries also need no limit of a compression ratio.
func Open(data []byte) (*Package, error) {
	files, err := listed(data)
	if err != nil {
		return nil, err
	}
	p := &Package{Modules: map[string][]byte{}, Digest: canonical.Digest(data), checked: &checked{}}
	for _, f := range files {
		text, err := content(f)
		if err != nil {
			return nil, err
		}
		p.put(f.Name, text)
	}
	if p.ManifestText == nil {
		return nil, refused("the package does not contain %s", ManifestEntry)
	}
	if p.Manifest, err = ParseManifest(p.ManifestText); err != nil {
		return nil, err
	}
	again, err := p.encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, data) {
		return nil, p.differs(again, data)
	}
	return p, nil
}

func (p *Package) put(name string, text []byte) {
	switch name {
	case ManifestEntry:
		p.ManifestText = text
	case SBOMEntry:
		p.SBOM = text
	case ProvenanceEntry:
		p.Provenance = text
	case SignatureEntry:
		p.Envelope = text
	default:
		p.Modules[name] = text
	}
}

// entry is one file of a package.
type entry struct {
	name string
	text []byte
}

// entries returns the entries of the package in their order; the signature is the last.
func (p *Package) entries() []entry {
	out := []entry{{ManifestEntry, p.ManifestText}}
	for _, name := range slices.Sorted(maps.Keys(p.Modules)) {
		out = append(out, entry{name, p.Modules[name]})
	}
	for _, e := range []entry{{SBOMEntry, p.SBOM}, {ProvenanceEntry, p.Provenance}, {SignatureEntry, p.Envelope}} {
		if e.text != nil {
			out = append(out, e)
		}
	}
	return out
}

// refused returns the error for a file that is not a valid package.
func refused(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.InvalidInput, format, args...).
		WithRemedy("Download the package again from its publisher. Only `palyra skills build` writes valid packages.")
}

// The end record of a zip file without a comment: its size and the offsets of its fields.
const (
	endSize     = 22
	endCount    = 10
	endLength   = 12
	endOffset   = 16
	centralSize = 46
	localSize   = 30
	// directorySize is the maximum size of the directory: MaxEntries with names longer than any
	// known entry.
	directorySize = MaxEntries * (centralSize + 128)
)

// listed checks the limits and the form of a file and returns its entries. It reads no entry.
func listed(data []byte) ([]*zip.File, error) {
	if len(data) > MaxPackage {
		return nil, reason.Errorf(reason.InputTooLarge, "the package has %d bytes; the limit is %d", len(data), MaxPackage).
			WithRemedy("Build smaller modules, or several skills.")
	}
	if len(data) < endSize || !bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return nil, refused("the file is not a package: it does not begin as a zip file does")
	}
	end := data[len(data)-endSize:]
	if !bytes.HasPrefix(end, []byte("PK\x05\x06")) {
		return nil, refused("the file does not end with its directory: it is truncated, or has extra data at the end")
	}
	if n := binary.LittleEndian.Uint16(end[endCount:]); n > MaxEntries {
		return nil, reason.Errorf(reason.InputTooLarge, "the package has %d entries; the limit is %d", n, MaxEntries).
			WithRemedy("Put fewer modules in it, or make several skills.")
	}
	// The library reads the whole directory regardless of the stated number of entries, so its
	// size is checked here. The check also excludes zip64.
	length, offset := uint64(binary.LittleEndian.Uint32(end[endLength:])), uint64(binary.LittleEndian.Uint32(end[endOffset:]))
	if length > directorySize {
		return nil, reason.Errorf(reason.InputTooLarge, "the directory of the package has %d bytes; the limit is %d", length, directorySize)
	}
	if offset+length+endSize != uint64(len(data)) {
		return nil, refused("the directory of the package is not between its last entry and its end")
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, refused("the directory of the package cannot be read: %v", err)
	}
	if len(r.File) > MaxEntries {
		return nil, reason.Errorf(reason.InputTooLarge, "the package has %d entries; the limit is %d", len(r.File), MaxEntries)
	}
	seen := map[string]string{}
	for _, f := range r.File {
		folded := strings.ToLower(f.Name)
		if other, twice := seen[folded]; twice {
			return nil, refused("the entries %q and %q have the same name", other, f.Name)
		}
		seen[folded] = f.Name
		if err := checkEntry(f); err != nil {
			return nil, err
		}
	}
	return r.File, checkLayout(data, r.File)
}

// checkEntry checks an entry by the directory alone.
func checkEntry(f *zip.File) error {
	name := f.Name
	switch {
	case strings.ContainsAny(name, "\\:\x00") || path.IsAbs(name) || path.Clean(name) != strings.TrimSuffix(name, "/") || strings.HasPrefix(path.Clean(name), ".."):
		return refused("the entry %q leads out of the package", name)
	case strings.HasSuffix(name, "/") || f.Mode().IsDir():
		return refused("the entry %q is a directory; packages contain only files", name)
	case f.Mode()&^0o777 != 0 || f.ExternalAttrs != 0:
		return refused("the entry %q is a link or another special file", name)
	case f.Flags&0x2041 != 0:
		return refused("the entry %q is encrypted", name)
	case f.Method != zip.Store:
		return refused("the entry %q is compressed; the entries of a package must be stored without compression", name)
	case f.CompressedSize64 != f.UncompressedSize64:
		return refused("the entry %q states a size of %d bytes in %d; both sizes of a stored entry must be equal", name, f.CompressedSize64, f.UncompressedSize64)
	case !known(name):
		return refused("the entry %q is not allowed in a package", name)
	case !strings.HasPrefix(name, modulesDir) && f.UncompressedSize64 > MaxText:
		return reason.Errorf(reason.InputTooLarge, "the entry %q has %d bytes; the limit is %d", name, f.UncompressedSize64, MaxText)
	}
	return nil
}

func known(name string) bool {
	return slices.Contains([]string{ManifestEntry, SBOMEntry, ProvenanceEntry, SignatureEntry}, name) || moduleForm.MatchString(name)
}

// checkLayout walks over the file, entry by entry up to the directory, and verifies that every
// byte belongs to exactly one part. It compares each local header with the directory.
func checkLayout(data []byte, files []*zip.File) error {
	at := uint64(0)
	for _, f := range files {
		begin := at + localSize + uint64(len(f.Name))
		offset, err := f.DataOffset()
		if err != nil {
			return refused("the entry %q cannot be found: %v", f.Name, err)
		}
		if uint64(offset) != begin || begin+f.CompressedSize64 > uint64(len(data)) {
			return refused("the entry %q does not begin where the previous one ends", f.Name)
		}
		if string(data[at+localSize:begin]) != f.Name {
			return refused("the entry %q has another name in its local header", f.Name)
		}
		at = begin + f.CompressedSize64
	}
	for _, f := range files {
		at += centralSize + uint64(len(f.Name))
	}
	if at+endSize != uint64(len(data)) {
		return refused("the file has %d bytes outside of its entries", int64(len(data))-int64(at+endSize))
	}
	return nil
}

// content reads one entry. Entries are stored, so the size of the file limits the size of an
// entry.
func content(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, refused("the entry %q cannot be read: %v", f.Name, err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, refused("the entry %q was changed: %v", f.Name, err)
	}
	return text, nil
}

// Pack writes the package's file, signed or unsigned. Equal entries result in equal bytes.
func Pack(p *Package) ([]byte, error) {
	if p.Manifest == nil {
		return nil, reason.Errorf(reason.InvalidInput, "a package must have a manifest")
	}
	return p.encode()
}

// encode writes the file.
func (p *Package) encode() ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range p.entries() {
		to, err := w.CreateRaw(&zip.FileHeader{
			Name: e.name, Method: zip.Store, ReaderVersion: 20, CRC32: checksum(e.text),
			CompressedSize64: uint64(len(e.text)), UncompressedSize64: uint64(len(e.text)),
		})
		if err == nil {
			_, err = to.Write(e.text)
		}
		if err != nil {
			return nil, fmt.Errorf("writing entry %s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing the package: %w", err)
	}
	return out.Bytes(), nil
}

// differs describes the first difference between a file and the canonical form of its entries.
func (p *Package) differs(want, got []byte) error {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	where, next := "the directory at its end", 0
	for _, e := range p.entries() {
		next += localSize + len(e.name) + len(e.text)
		if at < next {
			where = fmt.Sprintf("the header or the place of the entry %q", e.name)
			break
		}
	}
	return refused("%s does not follow the format (byte %d of the file)", where, at)
}
