//go:build !linux

package doctor

import "errors"

func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }

func clockSynchronised() (bool, error) { return false, errors.ErrUnsupported }
