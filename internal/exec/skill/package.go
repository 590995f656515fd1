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

// Extension is what files that are packages end in.
const Extension = ".palyra-skill"

// The caps of a package. They hold before anything of it is read.
const (
	// MaxPackage is the size of the file in bytes.
	MaxPackage = 64 << 20
	// MaxEntries is how many entries it has.
	MaxEntries = 256
	// MaxText is the size of one entry that is no module, in bytes.
	MaxText = 4 << 20
)

// The entries of a package, beside its modules.
const (
	ManifestEntry   = "skill.toml"
	SBOMEntry       = "sbom.cdx.json"
	ProvenanceEntry = "provenance.json"
	SignatureEntry  = "signature.dsse.json"
	modulesDir      = "modules/"
)

// Package is what a file holds. Nothing of it is proven before Verify.
type Package struct {
	Manifest *Manifest
	// ManifestText is skill.toml as it was written.
	ManifestText []byte
	// Modules are the modules by the names of their entries, such as modules/notes.wasm.
	Modules map[string][]byte
	// SBOM is a bill of materials of CycloneDX, Provenance a statement of in-toto. They
	// are nil where the package has none, which Audit refuses.
	SBOM, Provenance []byte
	// Envelope is the signature, nil of a package that is not signed.
	Envelope []byte
	// Digest is "sha256:" and the digest of the file.
	Digest string
	// checked are the modules of a package that Open read.
	checked *checked
}

// Open reads a package. The file has one form for what it holds: entries in their order,
// stored and not compressed, with nothing between, before and behind them. Whatever is
// another way is refused before an entry is read.
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
		return nil, refused("the package has no %s", ManifestEntry)
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

// entries are those of the package in their order; the signature is the last.
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

// refused is a file that is no package.
func refused(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.InvalidInput, format, args...).
		WithRemedy("Get the package anew from its publisher; `palyra skills build` writes packages, and no other program has to.")
}

// The end of a zip file without a comment: its size, and where its numbers stand.
const (
	endSize     = 22
	endCount    = 10
	endLength   = 12
	endOffset   = 16
	centralSize = 46
	localSize   = 30
	// directorySize bounds the directory: MaxEntries with names that are longer than any
	// that is known.
	directorySize = MaxEntries * (centralSize + 128)
)

// listed checks the caps and the form of a file, and returns its entries. Nothing is read
// of them yet.
func listed(data []byte) ([]*zip.File, error) {
	if len(data) > MaxPackage {
		return nil, reason.Errorf(reason.InputTooLarge, "the package has %d bytes; %d are allowed", len(data), MaxPackage).
			WithRemedy("Make smaller modules, or several skills.")
	}
	if len(data) < endSize || !bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return nil, refused("the file is no package: it does not begin as a zip file does")
	}
	end := data[len(data)-endSize:]
	if !bytes.HasPrefix(end, []byte("PK\x05\x06")) {
		return nil, refused("the file does not end with its directory: something was cut off, or stands behind it")
	}
	if n := binary.LittleEndian.Uint16(end[endCount:]); n > MaxEntries {
		return nil, reason.Errorf(reason.InputTooLarge, "the package has %d entries; %d are allowed", n, MaxEntries).
			WithRemedy("Put fewer modules in it, or make several skills.")
	}
	// The library reads the directory from where it begins until it ends, whatever number
	// it says: this is what bounds that. It leaves no way to zip64 either.
	length, offset := uint64(binary.LittleEndian.Uint32(end[endLength:])), uint64(binary.LittleEndian.Uint32(end[endOffset:]))
	if length > directorySize {
		return nil, reason.Errorf(reason.InputTooLarge, "the directory of the package has %d bytes; %d are allowed", length, directorySize)
	}
	if offset+length+endSize != uint64(len(data)) {
		return nil, refused("the directory of the package does not stand between its last entry and its end")
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, refused("the directory of the package cannot be read: %v", err)
	}
	if len(r.File) > MaxEntries {
		return nil, reason.Errorf(reason.InputTooLarge, "the package has %d entries; %d are allowed", len(r.File), MaxEntries)
	}
	seen := map[string]string{}
	for _, f := range r.File {
		folded := strings.ToLower(f.Name)
		if other, twice := seen[folded]; twice {
			return nil, refused("the entries %q and %q have one name", other, f.Name)
		}
		seen[folded] = f.Name
		if err := checkEntry(f); err != nil {
			return nil, err
		}
	}
	return r.File, checkLayout(data, r.File)
}

// checkEntry judges an entry by the directory alone.
func checkEntry(f *zip.File) error {
	name := f.Name
	switch {
	case strings.ContainsAny(name, "\\:\x00") || path.IsAbs(name) || path.Clean(name) != strings.TrimSuffix(name, "/") || strings.HasPrefix(path.Clean(name), ".."):
		return refused("the entry %q leads out of the package", name)
	case strings.HasSuffix(name, "/") || f.Mode().IsDir():
		return refused("the entry %q is a directory; a package has none", name)
	case f.Mode()&^0o777 != 0 || f.ExternalAttrs != 0:
		return refused("the entry %q is a link, or a file of another kind than a plain one", name)
	case f.Flags&0x2041 != 0:
		return refused("the entry %q is encrypted", name)
	case f.Method != zip.Store:
		return refused("the entry %q is compressed; the entries of a package are stored as they are", name)
	case f.CompressedSize64 != f.UncompressedSize64:
		return refused("the entry %q says that it is %d bytes of %d; a stored entry is as large as it is", name, f.CompressedSize64, f.UncompressedSize64)
	case !known(name):
		return refused("the entry %q belongs to no package", name)
	case !strings.HasPrefix(name, modulesDir) && f.UncompressedSize64 > MaxText:
		return reason.Errorf(reason.InputTooLarge, "the entry %q has %d bytes; %d are allowed", name, f.UncompressedSize64, MaxText)
	}
	return nil
}

func known(name string) bool {
	return slices.Contains([]string{ManifestEntry, SBOMEntry, ProvenanceEntry, SignatureEntry}, name) || moduleForm.MatchString(name)
}

// checkLayout walks over the file: entry after entry, and the directory behind the last,
// so that no byte belongs to nobody or to two. Each part before an entry's content is
// compared with what the directory says.
func checkLayout(data []byte, files []*zip.File) error {
	at := uint64(0)
	for _, f := range files {
		begin := at + localSize + uint64(len(f.Name))
		offset, err := f.DataOffset()
		if err != nil {
			return refused("the entry %q cannot be found: %v", f.Name, err)
		}
		if uint64(offset) != begin || begin+f.CompressedSize64 > uint64(len(data)) {
			return refused("the entry %q does not stand where the one before it ends", f.Name)
		}
		if string(data[at+localSize:begin]) != f.Name {
			return refused("the entry %q has another name in front of its content", f.Name)
		}
		at = begin + f.CompressedSize64
	}
	for _, f := range files {
		at += centralSize + uint64(len(f.Name))
	}
	if at+endSize != uint64(len(data)) {
		return refused("the file has %d bytes that belong to no entry", int64(len(data))-int64(at+endSize))
	}
	return nil
}

// content reads one entry. Its size is bounded by that of the file, since it is stored.
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

// Pack writes the package's file, with the signature that it has or without one. The same
// entries are the same bytes.
func Pack(p *Package) ([]byte, error) {
	if p.Manifest == nil {
		return nil, reason.Errorf(reason.InvalidInput, "a package has a manifest")
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

// differs says where a file is not what the format makes of its entries.
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
	return refused("%s is not as the format has it (byte %d of the file)", where, at)
}
