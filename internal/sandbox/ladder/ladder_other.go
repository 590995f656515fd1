//go:build !linux

package ladder

import (
	"context"

	"palyra/internal/sandbox"
)

// resident is a backend that holds nothing which needs to be closed.
type resident struct{ sweeper }

type sweeper interface {
	sandbox.Runner
	Sweep(ctx context.Context) error
}

func (resident) Close() error { return nil }
