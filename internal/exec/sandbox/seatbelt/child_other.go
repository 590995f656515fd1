//go:build !darwin && !linux

package seatbelt

import "palyra/internal/core/reason"

// Child returns an error: Seatbelt is a part of macOS.
func Child() error { return reason.Errorf(reason.PlatformUnknown, "Seatbelt is a part of macOS") }
