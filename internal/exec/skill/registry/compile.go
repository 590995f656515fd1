package registry

import (
	"context"
	"errors"
	"fmt"

	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/wasm/wire"
)

// Prepare compiles the modules of a staged package unless they are compiled already. This takes
// seconds. Install runs it before it takes the lock, so that no change that takes a skill out of
// use has to wait.
func (r *Registry) Prepare(ctx context.Context, digest string) error {
	_, p, in, err := r.examine(digest)
	if err == nil {
		err = in.Installable
	}
	if err != nil {
		return err
	}
	return r.compile(ctx, p)
}

// compile compiles the modules of a package, so that no call waits for it. It returns an error
// for a module that does not compile.
func (r *Registry) compile(ctx context.Context, p *skill.Package) error {
	if r.c.Compile == nil {
		return nil
	}
	type one struct {
		module   string
		features wire.Features
	}
	done := map[one]bool{}
	for _, t := range p.Manifest.Tools {
		m, err := p.Module(t, r.c.Limits.Structure)
		if err != nil {
			return err
		}
		if done[one{t.Module, m.Features}] {
			continue
		}
		done[one{t.Module, m.Features}] = true
		if err := r.c.Compile(ctx, m); err != nil {
			var known *reason.Error
			if !errors.As(err, &known) {
				return fmt.Errorf("compiling %s: %w", t.Module, err)
			}
			return reason.Errorf(known.Code, "compiling %s: %w", t.Module, err).WithRemedy("%s", known.NextStep())
		}
	}
	return nil
}
