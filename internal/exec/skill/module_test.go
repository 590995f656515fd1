package skill_test

import (
	"crypto/sha256"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/wasm/module"
)

// A module is checked under the given limits, even if it passed the check under other limits.
// Its digest is computed from the current bytes.
func TestModuleOfATool(t *testing.T) {
	t.Parallel()
	p := must.Get(skill.Open(signed(t)))(t)
	tool := p.Manifest.Tools[0]
	wide, tight := module.DefaultLimits(), module.DefaultLimits()
	tight.ModuleBytes = 10
	for range 2 {
		m := must.Get(p.Module(tool, wide))(t)
		if m.Digest != sha256.Sum256([]byte(command)) || m.Kind != module.Command || !m.Features.SIMD || m.Features.MultiValue {
			t.Errorf("the module is %+v", m)
		}
		if _, err := p.Module(tool, tight); err == nil {
			t.Error("a module that is too large was found in order")
		}
	}
	plain := tool
	plain.Features.SIMD = false
	if m := must.Get(p.Module(plain, wide))(t); m.Features.SIMD {
		t.Error("a tool that asks for no SIMD has it by another tool")
	}
	p.Modules[tool.Module] = []byte("\x00asm")
	if _, err := p.Module(tool, wide); err == nil {
		t.Error("other bytes are the module that was there")
	}
}
