package skill_test

import (
	"fmt"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/skill"
)

// audited returns the audit findings of a package, signed unchanged.
func audited(t *testing.T, p *skill.Package, limits skill.Limits) []skill.Finding {
	t.Helper()
	return skill.Audit(must.Get(skill.Open(must.Get(skill.Sign(p, key))(t)))(t), limits)
}

// plain returns the manifest without the features that the command does not use.
func plain(text string) string {
	begin := strings.Index(text, "[tools.features]")
	return strings.Replace(text[:begin], "interface = \"0.1.0\"", "", 1)
}

func TestAuditFindsNothing(t *testing.T) {
	t.Parallel()
	if found := audited(t, unsigned(t, plain(manifest)), skill.DefaultLimits()); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	module := func(text string) func(p *skill.Package) {
		return func(p *skill.Package) {
			p.Modules["modules/notes.wasm"] = []byte(text)
			must.Do(t, p.Document(nil, nil))
		}
	}
	nothing := func(*skill.Package) {}
	strange := command[:8] + "\x01\x04\x01\x60\x00\x00" + "\x02\x0e\x01\x03env\x06system\x00\x00" + "\x05\x03\x01\x00\x01" + "\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00"
	for name, c := range map[string]struct {
		manifest string
		change   func(p *skill.Package)
		limits   func(l *skill.Limits)
		code     string
		severity skill.Severity
		wants    string
	}{
		"a channel":            {manifest: strings.Replace(manifest, "storage_bytes = ", "channels = [\"team\"]\nstorage_bytes = ", 1), code: skill.CodeChannels, severity: skill.Error, wants: "send messages to team"},
		"a wildcard":           {manifest: with("api.example.org:443", "*.example.org"), code: skill.CodeWildcard, severity: skill.Error, wants: "more than single hosts: *.example.org"},
		"every host":           {manifest: with("api.example.org:443", "*"), code: skill.CodeWildcard, severity: skill.Error, wants: "more than single hosts: *"},
		"a prefix":             {manifest: with("api.example.org:443", "192.0.2.0/24"), code: skill.CodeWildcard, severity: skill.Error, wants: "192.0.2.0/24"},
		"a wildcard, let":      {manifest: with("api.example.org:443", "*.example.org"), limits: func(l *skill.Limits) { l.Wildcards = true }, code: skill.CodeWildcard, severity: skill.Warning, wants: "*.example.org"},
		"a secret's value":     {manifest: with(`"placeholder"`, `"read"`), code: skill.CodeSecretRead, severity: skill.Warning, wants: `the value of the secret "global/notes"`},
		"too much fuel":        {limits: func(l *skill.Limits) { l.FuelCeiling = 1000 }, code: skill.CodeFuel, severity: skill.Error, wants: "200000000 units of fuel; the limit is 1000"},
		"an old palyrad":       {limits: func(l *skill.Limits) { l.Palyra = "v0.4.9" }, code: skill.CodeCompatibility, severity: skill.Error, wants: "0.5.0 or newer; this is v0.4.9"},
		"no module":            {change: func(p *skill.Package) { delete(p.Modules, "modules/notes.wasm") }, code: skill.CodeModuleMissing, severity: skill.Error, wants: "modules/notes.wasm is not in the package"},
		"a module of no tool":  {change: func(p *skill.Package) { p.Modules["modules/z.wasm"] = []byte(command) }, code: skill.CodeModuleUnused, severity: skill.Error, wants: "no tool uses this module"},
		"no WebAssembly":       {change: module("hello"), code: skill.CodeModule, severity: skill.Error, wants: "malformed"},
		"a strange import":     {change: module(strange), code: skill.CodeModule, severity: skill.Error, wants: `imports "system" from "env"`},
		"a large module":       {limits: func(l *skill.Limits) { l.Structure.ModuleBytes = 10 }, code: skill.CodeModule, severity: skill.Error, wants: "the limit is 10"},
		"names in a module":    {change: module(command + "\x00\x05\x04name"), code: skill.CodeCustom, severity: skill.Warning, wants: "5 bytes of names"},
		"asked for, not used":  {code: skill.CodeUnused, severity: skill.Warning, wants: "request storage_bytes"},
		"no bill":              {change: func(p *skill.Package) { p.SBOM = nil }, code: skill.CodeSBOM, severity: skill.Error, wants: "the package does not contain it"},
		"a bill that is none":  {change: func(p *skill.Package) { p.SBOM = []byte("{") }, code: skill.CodeSBOM, severity: skill.Error, wants: "cannot be read"},
		"another format":       {change: func(p *skill.Package) { p.SBOM = []byte(`{"bomFormat":"SPDX"}`) }, code: skill.CodeSBOM, severity: skill.Error, wants: `bomFormat is "SPDX"`},
		"a bill of others":     {change: func(p *skill.Package) { p.SBOM = []byte(`{"bomFormat":"CycloneDX","specVersion":"1.6"}`) }, code: skill.CodeSBOM, severity: skill.Error, wants: "does not name modules/notes.wasm"},
		"no provenance":        {change: func(p *skill.Package) { p.Provenance = nil }, code: skill.CodeProvenance, severity: skill.Error, wants: "the package does not contain it"},
		"another's provenance": {change: func(p *skill.Package) { p.Modules["modules/notes.wasm"] = []byte(command + "\x00\x05\x04name") }, code: skill.CodeProvenance, severity: skill.Error, wants: "modules/notes.wasm with another digest"},
	} {
		t.Run(name, func(t *testing.T) {
			text, limits := c.manifest, skill.DefaultLimits()
			if text == "" {
				text = manifest
			}
			if c.limits != nil {
				c.limits(&limits)
			}
			if c.change == nil {
				c.change = nothing
			}
			p := unsigned(t, text)
			c.change(p)
			found := audited(t, p, limits)
			for _, f := range found {
				if f.Code == c.code && f.Severity == c.severity && strings.Contains(f.What, c.wants) && f.Remedy != "" && f.About != "" {
					return
				}
			}
			t.Errorf("found %+v, want %s %s %q", found, c.severity, c.code, c.wants)
		})
	}
}

// TestAuditOfVersions: a development build after a release is not older than that release. A
// build without a version is not checked.
func TestAuditOfVersions(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{"v0.5.0": false, "v0.5.0-7-gabcdef": false, "v0.4.9-7-gabcdef": true, "v0.4.9": true, "v1.0.0": false, "dev": false, "": false} {
		limits := skill.DefaultLimits()
		limits.Palyra = version
		if found := audited(t, unsigned(t, manifest), limits); skill.Failed(found) != old {
			t.Errorf("%q: %+v", version, found)
		}
	}
}

// TestAuditOfUnsigned: the audit reports an unsigned package and continues.
func TestAuditOfUnsigned(t *testing.T) {
	t.Parallel()
	p := must.Get(skill.Open(must.Get(skill.Pack(unsigned(t, with("api.example.org:443", "*"))))(t)))(t)
	found := skill.Audit(p, skill.DefaultLimits())
	if said := fmt.Sprint(found); !skill.Failed(found) || !strings.Contains(said, "it is not signed") || !strings.Contains(said, skill.CodeWildcard) {
		t.Error(said)
	}
}

// TestFeaturesOfAModule: SIMD is refused unless a tool of the module requests it.
func TestFeaturesOfAModule(t *testing.T) {
	t.Parallel()
	vector := command[:len(command)-6] + "\x0a\x17\x01\x15\x00\xfd\x0c" + strings.Repeat("\x00", 16) + "\x1a\x0b"
	for _, asks := range []bool{true, false} {
		p := unsigned(t, with("simd = true", fmt.Sprintf("simd = %t", asks)))
		p.Modules["modules/notes.wasm"] = []byte(vector)
		must.Do(t, p.Document(nil, nil))
		if found := audited(t, p, skill.DefaultLimits()); skill.Failed(found) == asks {
			t.Errorf("asked %t: %+v", asks, found)
		}
	}
}
