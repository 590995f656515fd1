//go:build !linux

package daemon

import (
	"context"
	"os"
	"strconv"

	"palyra/internal/sandbox"
)

// mark names this daemon.
func mark() string { return strconv.Itoa(os.Getpid()) }

// sweepPlaces has nothing to remove: programs have no copies of workspaces here.
func sweepPlaces(string) error { return nil }

// held is a backend that holds nothing which needs to be closed.
type held struct{ sweeper }

type sweeper interface {
	sandbox.Runner
	Sweep(ctx context.Context) error
}

func (held) Close() error { return nil }
