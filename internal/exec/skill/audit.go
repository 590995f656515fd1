package skill

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"palyra/internal/core/reason"
	"palyra/internal/exec/wasm/module"
)

// Limits are the requirements of an audit.
type Limits struct {
	// Structure limits each module. SIMD and multi-value are allowed where the tools of the
	// module request them.
	Structure module.Limits
	// FuelCeiling is the maximum fuel that a tool may request.
	FuelCeiling uint64
	// Wildcards allows tools to request more than single hosts.
	Wildcards bool
	// Palyra is the version of palyrad that would run the package, such as v1.2.0. "" or an
	// invalid semantic version disables the check.
	Palyra string
}

// DefaultLimits are the limits of palyrad without configuration.
func DefaultLimits() Limits {
	return Limits{Structure: module.DefaultLimits(), FuelCeiling: MaxFuel}
}

// Severity determines whether a finding prevents an installation.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one result of an audit.
type Finding struct {
	Severity Severity
	// Code is a machine-readable code, such as SKILL_WILDCARD.
	Code string
	// About is the package entry or the tool.
	About string
	// What describes the problem, and Remedy the next step.
	What, Remedy string
}

// The codes of findings.
const (
	CodeSignature     = "SKILL_SIGNATURE"
	CodeCompatibility = "SKILL_COMPATIBILITY"
	CodeFuel          = "SKILL_FUEL"
	CodeWildcard      = "SKILL_WILDCARD"
	CodeSecretRead    = "SKILL_SECRET_READ"
	CodeChannels      = "SKILL_CHANNELS"
	CodeModule        = "SKILL_MODULE"
	CodeModuleMissing = "SKILL_MODULE_MISSING"
	CodeModuleUnused  = "SKILL_MODULE_UNUSED"
	CodeUnasked       = "SKILL_UNASKED"
	CodeUnused        = "SKILL_UNUSED_CAPABILITY"
	CodeCustom        = "SKILL_CUSTOM_SECTIONS"
	CodeSBOM          = "SKILL_SBOM"
	CodeProvenance    = "SKILL_PROVENANCE"
)

// Failed reports whether a finding is an error.
func Failed(list []Finding) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Severity == Error })
}

// Audit inspects a package without running it. Open has already checked its manifest and limits.
func Audit(p *Package, limits Limits) []Finding {
	a := &audit{p: p, limits: limits}
	if _, err := Verify(p); err != nil {
		a.failed(CodeSignature, SignatureEntry, err)
	}
	a.compatibility()
	for _, t := range p.Manifest.Tools {
		a.tool(t)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Modules)) {
		a.module(name)
	}
	a.named(CodeSBOM, SBOMEntry, p.SBOM, inSBOM)
	a.named(CodeProvenance, ProvenanceEntry, p.Provenance, inProvenance)
	return a.found
}

type audit struct {
	p      *Package
	limits Limits
	found  []Finding
}

func (a *audit) say(severity Severity, code, about, remedy, format string, args ...any) {
	a.found = append(a.found, Finding{severity, code, about, fmt.Sprintf(format, args...), remedy})
}

func (a *audit) failed(code, about string, err error) {
	known := reason.Known(err, reason.InvalidInput)
	a.say(Error, code, about, known.NextStep(), "%s", known.Message)
}

func (a *audit) compatibility() {
	least, is := a.p.Manifest.Compatibility.Palyra, a.limits.Palyra
	// A development build has the version of the previous release with a suffix. Semantic
	// versioning would order such a build before that release.
	is = strings.TrimSuffix(strings.TrimSuffix(is, semver.Build(is)), semver.Prerelease(is))
	if least != "" && semver.IsValid(is) && semver.Compare(is, "v"+least) < 0 {
		a.say(Error, CodeCompatibility, ManifestEntry, "Install a newer palyrad, or an older version of the skill.",
			"the skill requires palyrad %s or newer; this is %s", least, a.limits.Palyra)
	}
}

func (a *audit) tool(t Tool) {
	if _, there := a.p.Modules[t.Module]; !there {
		a.say(Error, CodeModuleMissing, t.ID, "Rebuild the package: `palyra skills build` packs the modules that the manifest names.", "its module %s is not in the package", t.Module)
	}
	if t.FuelOf() > a.limits.FuelCeiling {
		a.say(Error, CodeFuel, t.ID, "Raise wasm_runtime.fuel_ceiling, or make a tool that needs less.", "it requests %d units of fuel; the limit is %d", t.FuelOf(), a.limits.FuelCeiling)
	}
	if wide := t.Capabilities.Wildcards(); len(wide) > 0 {
		severity := Error
		if a.limits.Wildcards {
			severity = Warning
		}
		a.say(severity, CodeWildcard, t.ID, "Have its publisher name the hosts, or allow wildcards for this package (--allow-wildcards).",
			"it requests more than single hosts: %s", strings.Join(wide, ", "))
	}
	if len(t.Capabilities.Channels) > 0 {
		a.say(Error, CodeChannels, t.ID, "Have its publisher remove the channels; the API of a messaging service is reachable by http.",
			"it requests to send messages to %s, but this version of the gateway has no channels", strings.Join(t.Capabilities.Channels, ", "))
	}
	for _, s := range t.Capabilities.Secrets {
		if s.Use == Read {
			a.say(Warning, CodeSecretRead, t.ID, "Check whether a placeholder is sufficient: then the module never receives the value.", "its module would receive the value of the secret %q", s.Name)
		}
	}
}

// using returns the tools that a module implements.
func (a *audit) using(name string) []Tool {
	var out []Tool
	for _, t := range a.p.Manifest.Tools {
		if t.Module == name {
			out = append(out, t)
		}
	}
	return out
}

func (a *audit) module(name string) {
	tools := a.using(name)
	if len(tools) == 0 {
		a.say(Error, CodeModuleUnused, name, "Remove it: an unused module is not reviewed.", "no tool uses this module")
	}
	limits := a.limits.Structure
	for _, t := range tools {
		limits.SIMD = limits.SIMD || t.Features.SIMD
		limits.MultiValue = limits.MultiValue || t.Features.MultiValue
	}
	m, err := module.Check(a.p.Modules[name], limits)
	if err != nil {
		a.failed(CodeModule, name, err)
		return
	}
	if m.CustomBytes > 0 {
		a.say(Warning, CodeCustom, name, "Build it with `palyra skills build`, which strips modules.", "it has %d bytes of names and debug information", m.CustomBytes)
	}
	a.imports(name, m, tools)
}

// grantOf maps the functions of the handle interface to the capability that each requires.
var grantOf = map[string]string{
	"http_request": "http", "secret_read": "secrets", "channel_send": "channels",
	"storage_get": "storage_bytes", "storage_put": "storage_bytes", "storage_delete": "storage_bytes", "storage_list": "storage_bytes",
}

// imports compares the imports of a module with the capabilities that its tools request.
func (a *audit) imports(name string, m *module.Module, tools []Tool) {
	can := map[string]bool{}
	handles := false
	for _, i := range m.Imports {
		if i.Module == module.Capabilities {
			handles = true
			can[grantOf[i.Name]] = true
		}
	}
	if handles && a.p.Manifest.Compatibility.Interface == "" {
		a.say(Error, CodeCompatibility, name, fmt.Sprintf("Write interface = %q under [compatibility].", InterfaceVersion),
			"it imports from %s, but the manifest does not declare that interface", module.Capabilities)
	}
	asked := map[string]bool{}
	for _, t := range tools {
		c := t.Capabilities
		asked["http"] = asked["http"] || len(c.HTTP) > 0
		asked["channels"] = asked["channels"] || len(c.Channels) > 0
		asked["storage_bytes"] = asked["storage_bytes"] || c.StorageBytes > 0
		asked["secrets"] = asked["secrets"] || slices.ContainsFunc(c.Secrets, func(s Secret) bool { return s.Use == Read })
	}
	for _, grant := range []string{"http", "secrets", "storage_bytes", "channels"} {
		switch {
		case can[grant] && !asked[grant]:
			a.say(Warning, CodeUnasked, name, "Capabilities that are not requested are not granted; the function returns -1.", "it can use %s, but none of its tools requests it", grant)
		case asked[grant] && !can[grant]:
			a.say(Warning, CodeUnused, name, "Remove the request.", "its tools request %s, but it imports no function that uses it", grant)
		}
	}
}

// named checks that a document names each module with its digest.
func (a *audit) named(code, entry string, text []byte, read func([]byte) (map[string]string, error)) {
	const remedy = "Rebuild the package with `palyra skills build`, which writes this file."
	if text == nil {
		a.say(Error, code, entry, remedy, "the package does not contain it")
		return
	}
	names, err := read(text)
	if err != nil {
		a.say(Error, code, entry, remedy, "it cannot be read: %v", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.p.Modules)) {
		switch digest, there := names[name]; {
		case !there:
			a.say(Error, code, entry, remedy, "it does not name %s", name)
		case digest != hexDigest(a.p.Modules[name]):
			a.say(Error, code, entry, remedy, "it names %s with another digest: sha256 %.80q", name, digest)
		}
	}
}
