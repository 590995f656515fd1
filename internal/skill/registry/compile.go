package registry

import (
	"context"
	"crypto/sha256"

	"palyra/internal/reason"
	"palyra/internal/skill"
	"palyra/internal/wasm/guest"
	"palyra/internal/wasm/structure"
	"palyra/internal/wasm/wire"
)

// ModuleOf is the module of a tool of a package, as it is compiled and run: a module of
// two tools that ask for other features is two.
func ModuleOf(p *skill.Package, t skill.Tool, limits structure.Limits) (guest.Module, error) {
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

// compile compiles the modules of a package, so that no call waits for it, and refuses
// what cannot be compiled.
func (r *Registry) compile(ctx context.Context, p *skill.Package) error {
	if r.c.Compile == nil {
		return nil
	}
	type one struct {
		digest   [32]byte
		features wire.Features
	}
	done := map[one]bool{}
	for _, t := range p.Manifest.Tools {
		m, err := ModuleOf(p, t, r.c.Limits.Structure)
		if err != nil {
			return err
		}
		if done[one{m.Digest, m.Features}] {
			continue
		}
		done[one{m.Digest, m.Features}] = true
		if err := r.c.Compile(ctx, m); err != nil {
			known := reason.Known(err, reason.Internal)
			return reason.Errorf(known.Code, "compiling %s: %w", t.Module, err).WithRemedy("%s", known.NextStep())
		}
	}
	return nil
}
