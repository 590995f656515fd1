//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

// Here nobody says how full a disk is, so that there is no reserve.

func diskSpace(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

func allocated(*os.File) (int64, error) { return 0, errors.ErrUnsupported }

func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

func preallocate(string, int64) {}
