package skill

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"palyra/internal/core/canonical"
)

// Library is a dependency of a module.
type Library struct {
	// Name and Version are in the notation of its ecosystem; PURL is its package URL.
	Name, Version, PURL string
}

// Origin describes how a module was built.
type Origin struct {
	// Toolchain is the compiler with its version, such as go1.26.8, "" for a prebuilt module.
	Toolchain string
	// Arguments are the compiler arguments.
	Arguments []string
	// Sources are the digests of its sources in lower-case hex, by path.
	Sources map[string]string
}

// The supported parts of CycloneDX. Source: CycloneDX 1.6, JSON.
type bom struct {
	BOMFormat   string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type      string    `json:"type"`
	Ref       string    `json:"bom-ref,omitempty"`
	Name      string    `json:"name"`
	Version   string    `json:"version,omitempty"`
	Publisher string    `json:"publisher,omitempty"`
	PURL      string    `json:"purl,omitempty"`
	Hashes    []bomHash `json:"hashes,omitempty"`
}

type bomHash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

// The supported parts of an in-toto statement with SLSA provenance. Source: in-toto Statement v1,
// SLSA Provenance v1.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string              `json:"buildType"`
	ExternalParameters   map[string]modParam `json:"externalParameters"`
	ResolvedDependencies []subject           `json:"resolvedDependencies"`
}

// modParam describes the build of one module.
type modParam struct {
	Toolchain string   `json:"toolchain,omitempty"`
	Arguments []string `json:"arguments,omitempty"`
	Prebuilt  bool     `json:"prebuilt,omitempty"`
}

type runDetails struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID string `json:"id"`
}

// Type and version identifiers of the documents.
const (
	bomFormat     = "CycloneDX"
	specVersion   = "1.6"
	statementType = "https://in-toto.io/Statement/v1"
	slsaType      = "https://slsa.dev/provenance/v1"
	buildType     = "urn:palyra:skill-build:v1"
	builderID     = "urn:palyra:skills-build"
)

func hexDigest(text []byte) string { return strings.TrimPrefix(canonical.Digest(text), "sha256:") }

// Document fills in the bill of materials and the provenance of a package. They contain only data
// that determines the package's bytes, and neither the time nor the machine. The same sources and
// compilers therefore produce the same package.
func (p *Package) Document(libraries []Library, origins map[string]Origin) error {
	b := bom{
		BOMFormat: bomFormat, SpecVersion: specVersion, Version: 1,
		Metadata:   metadata{component{Type: "application", Ref: p.Manifest.ID, Name: p.Manifest.ID, Version: p.Manifest.Version, Publisher: p.Manifest.Publisher}},
		Components: []component{},
	}
	s := statement{Type: statementType, PredicateType: slsaType, Predicate: predicate{
		BuildDefinition: buildDefinition{BuildType: buildType, ExternalParameters: map[string]modParam{}, ResolvedDependencies: []subject{}},
		RunDetails:      runDetails{builder{builderID}},
	}}
	for _, name := range slices.Sorted(maps.Keys(p.Modules)) {
		digest, from := hexDigest(p.Modules[name]), origins[name]
		b.Components = append(b.Components, component{Type: "file", Ref: name, Name: name, Hashes: []bomHash{{"SHA-256", digest}}})
		s.Subject = append(s.Subject, subject{name, map[string]string{"sha256": digest}})
		s.Predicate.BuildDefinition.ExternalParameters[name] = modParam{Toolchain: from.Toolchain, Arguments: from.Arguments, Prebuilt: from.Toolchain == ""}
		for _, source := range slices.Sorted(maps.Keys(from.Sources)) {
			s.Predicate.BuildDefinition.ResolvedDependencies = append(s.Predicate.BuildDefinition.ResolvedDependencies, subject{source, map[string]string{"sha256": from.Sources[source]}})
		}
	}
	for _, l := range libraries {
		b.Components = append(b.Components, component{Type: "library", Ref: l.PURL, Name: l.Name, Version: l.Version, PURL: l.PURL})
	}
	var err error
	if p.SBOM, err = canonical.Marshal(b); err != nil {
		return fmt.Errorf("writing the bill of materials: %w", err)
	}
	if p.Provenance, err = canonical.Marshal(s); err != nil {
		return fmt.Errorf("writing the provenance: %w", err)
	}
	return nil
}

// inSBOM returns the file digests of a bill of materials in hex, by name.
func inSBOM(text []byte) (map[string]string, error) {
	var b bom
	if err := jsonv2.Unmarshal(text, &b); err != nil {
		return nil, err
	}
	if b.BOMFormat != bomFormat || !strings.HasPrefix(b.SpecVersion, "1.") {
		return nil, fmt.Errorf("bomFormat is %q and specVersion %q, expected %s and 1.x", b.BOMFormat, b.SpecVersion, bomFormat)
	}
	out := map[string]string{}
	for _, c := range b.Components {
		for _, h := range c.Hashes {
			if h.Alg == "SHA-256" {
				out[c.Name] = strings.ToLower(h.Content)
			}
		}
	}
	return out, nil
}

// inProvenance returns the digests of a statement's subjects in hex, by name.
func inProvenance(text []byte) (map[string]string, error) {
	var s statement
	if err := jsonv2.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.Type != statementType || s.PredicateType != slsaType {
		return nil, fmt.Errorf("_type is %q and predicateType %q, expected %s and %s", s.Type, s.PredicateType, statementType, slsaType)
	}
	out := map[string]string{}
	for _, about := range s.Subject {
		out[about.Name] = strings.ToLower(about.Digest["sha256"])
	}
	return out, nil
}
