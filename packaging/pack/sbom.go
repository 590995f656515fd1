package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"palyra/packaging/linked"
)

// writeSBOM writes the CycloneDX list of what is linked into each program, and prints its digest, by
// which the programs name it. It is made before they are linked.
func writeSBOM(ctx context.Context, o options) error {
	rel, err := o.release()
	if err != nil {
		return err
	}
	modules, err := linked.Modules(ctx, o.root, platforms)
	if err != nil {
		return err
	}
	packages, err := linked.Packages(o.root)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := encoder.EncodeVersion(bom(rel, modules, packages), cdx.SpecVersion1_6); err != nil {
		return err
	}
	if err := makeFolder(o.out); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(o.out, rel.sbom()), out.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Println("sha256:" + hexDigest(out.Bytes()))
	return nil
}

// bom returns the list: the programs of each platform as applications, and for each the modules and
// packages that it depends on.
func bom(rel release, modules []linked.Module, packages []linked.NPM) *cdx.BOM {
	needs := make(map[string][]string) // program to the references of what it has
	components := make([]cdx.Component, 0, len(modules)+len(packages))
	for _, m := range modules {
		c := component("pkg:golang/"+m.Path+"@"+m.Version, m.Path, m.Version, m.Licence)
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "palyra:go.sum", Value: m.Sum}}
		}
		components = append(components, c)
		for _, program := range m.In {
			needs[program.String()] = append(needs[program.String()], c.BOMRef)
		}
	}
	for _, p := range packages {
		// The scope of a package is percent-encoded in a package URL.
		c := component("pkg:npm/"+strings.Replace(p.Name, "@", "%40", 1)+"@"+p.Version, p.Name, p.Version, p.Licence)
		if kind, digest, ok := strings.Cut(p.Integrity, "-"); ok && kind == "sha512" {
			if raw, err := base64.StdEncoding.DecodeString(digest); err == nil {
				c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(raw)}}
			}
		}
		components = append(components, c)
		for _, platform := range platforms { // palyrad has the console on every platform
			program := linked.Program{Name: "palyrad", OS: platform.OS, Arch: platform.Arch}.String()
			needs[program] = append(needs[program], c.BOMRef)
		}
	}
	root := cdx.Component{BOMRef: "palyra", Type: cdx.ComponentTypeApplication, Name: "palyra", Version: rel.version, Licenses: &cdx.Licenses{{Expression: "Apache-2.0"}}}
	dependencies := []cdx.Dependency{{Ref: root.BOMRef, Dependencies: new([]string)}}
	for _, program := range slices.Sorted(maps.Keys(needs)) {
		components = append(components, cdx.Component{BOMRef: program, Type: cdx.ComponentTypeApplication, Name: program, Version: rel.version})
		*dependencies[0].Dependencies = append(*dependencies[0].Dependencies, program)
		dependencies = append(dependencies, cdx.Dependency{Ref: program, Dependencies: new(slices.Compact(slices.Sorted(slices.Values(needs[program]))))})
	}
	list := cdx.NewBOM()
	list.SerialNumber = serialNumber(rel)
	list.Metadata = &cdx.Metadata{Timestamp: rel.date.Format(time.RFC3339), Component: &root}
	list.Components, list.Dependencies = &components, &dependencies
	return list
}

func component(url, name, version, licence string) cdx.Component {
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url, Licenses: &cdx.Licenses{{Expression: licence}}}
}

// serialNumber returns a UUID of version 8 (RFC 9562) that is the same for the same release.
func serialNumber(rel release) string {
	id := sha256.Sum256([]byte("palyra " + rel.version + " " + rel.commit))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}
