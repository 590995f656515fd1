package skill

import (
	"crypto/sha256"

	"palyra/internal/wasm/guest"
	"palyra/internal/wasm/structure"
	"palyra/internal/wasm/wire"
)

// Module is the module of one of the package's tools, checked, as it is compiled and run.
// It may use what that tool asks for: a module of two tools that ask for other features is
// compiled twice.
func (p *Package) Module(t Tool, limits structure.Limits) (guest.Module, error) {
	text := p.Modules[t.Module]
	limits.SIMD = limits.SIMD || t.Features.SIMD
	limits.MultiValue = limits.MultiValue || t.Features.MultiValue
	m, err := structure.Check(text, limits)
	if err != nil {
		return guest.Module{}, err
	}
	return guest.Module{
		Bytes: text, Digest: sha256.Sum256(text), Kind: m.Kind,
		Features: wire.Features{SIMD: t.Features.SIMD, MultiValue: t.Features.MultiValue},
	}, nil
}
