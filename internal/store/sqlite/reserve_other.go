//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

// diskSpace returns errors.ErrUnsupported, so the reserve is not supported on this system.

func diskSpace(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

func allocated(*os.File) (int64, error) { return 0, errors.ErrUnsupported }

func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

func preallocate(string, int64) {}
