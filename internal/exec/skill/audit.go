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

// Limits are what an audit holds a package to.
type Limits struct {
	// Structure bounds each module. SIMD and multi-value are on where the tools of the
	// module ask for them.
	Structure module.Limits
	// FuelCeiling is the most fuel that a tool may ask for.
	FuelCeiling uint64
	// Wildcards lets tools ask for more than single hosts.
	Wildcards bool
	// Palyra is the version that would run it, such as v1.2.0; "" or one that is no
	// semantic version asks nothing.
	Palyra string
}

// DefaultLimits are those of palyrad without configuration.
func DefaultLimits() Limits {
	return Limits{Structure: module.DefaultLimits(), FuelCeiling: MaxFuel}
}

// Severity says whether a finding keeps a package from being installed.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one thing that an audit found.
type Finding struct {
	Severity Severity
	// Code is for programs, such as SKILL_WILDCARD.
	Code string
	// About is the entry or the tool.
	About string
	// What is wrong, and what to do about it.
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

// Audit looks at all that can be seen of a package without running it. Its manifest and
// the caps were checked by Open.
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
	// What stands behind the numbers is counted from the release before in a build that is
	// none, and would put it before that release.
	is = strings.TrimSuffix(strings.TrimSuffix(is, semver.Build(is)), semver.Prerelease(is))
	if least != "" && semver.IsValid(is) && semver.Compare(is, "v"+least) < 0 {
		a.say(Error, CodeCompatibility, ManifestEntry, "Install a newer palyrad, or an older version of the skill.",
			"the skill is for palyrad %s and newer; this is %s", least, a.limits.Palyra)
	}
}

func (a *audit) tool(t Tool) {
	if _, there := a.p.Modules[t.Module]; !there {
		a.say(Error, CodeModuleMissing, t.ID, "Build the package anew: `palyra skills build` packs what the manifest names.", "its module %s is not in the package", t.Module)
	}
	if t.FuelOf() > a.limits.FuelCeiling {
		a.say(Error, CodeFuel, t.ID, "Raise wasm_runtime.fuel_ceiling, or make a tool that needs less.", "it asks for %d of fuel; %d are allowed", t.FuelOf(), a.limits.FuelCeiling)
	}
	if wide := t.Capabilities.Wildcards(); len(wide) > 0 {
		severity := Error
		if a.limits.Wildcards {
			severity = Warning
		}
		a.say(severity, CodeWildcard, t.ID, "Have its publisher name the hosts, or allow wildcards for this package (--allow-wildcards).",
			"it asks for more than single hosts: %s", strings.Join(wide, ", "))
	}
	if len(t.Capabilities.Channels) > 0 {
		a.say(Error, CodeChannels, t.ID, "Have its publisher leave the channels out; http reaches the interface of a messaging service.",
			"it asks to send messages to %s, and this version of the gateway has no channels", strings.Join(t.Capabilities.Channels, ", "))
	}
	for _, s := range t.Capabilities.Secrets {
		if s.Use == Read {
			a.say(Warning, CodeSecretRead, t.ID, "Ask whether a placeholder would do: then the module never sees the value.", "its module would see the value of the secret %q", s.Name)
		}
	}
}

// using are the tools that are one module.
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
		a.say(Error, CodeModuleUnused, name, "Leave it out: what no tool is, nobody looks at.", "no tool is this module")
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
		a.say(Warning, CodeCustom, name, "Build it with `palyra skills build`, which strips.", "it has %d bytes of names and debug information", m.CustomBytes)
	}
	a.imports(name, m, tools)
}

// grantOf is the capability that a function of the interface of handles is for.
var grantOf = map[string]string{
	"http_request": "http", "secret_read": "secrets", "channel_send": "channels",
	"storage_get": "storage_bytes", "storage_put": "storage_bytes", "storage_delete": "storage_bytes", "storage_list": "storage_bytes",
}

// imports compares what a module can use with what its tools ask for.
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
			"it imports from %s, and the manifest does not say that it is made for it", module.Capabilities)
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
			a.say(Warning, CodeUnasked, name, "Nothing is granted that is not asked for; the function answers -1.", "it can use %s, and none of its tools asks for it", grant)
		case asked[grant] && !can[grant]:
			a.say(Warning, CodeUnused, name, "Ask for less.", "its tools ask for %s, and it imports nothing that uses it", grant)
		}
	}
}

// named checks that a paper names each module with its digest.
func (a *audit) named(code, entry string, text []byte, read func([]byte) (map[string]string, error)) {
	const remedy = "Build the package anew with `palyra skills build`, which writes it."
	if text == nil {
		a.say(Error, code, entry, remedy, "the package has none")
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
