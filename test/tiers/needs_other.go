//go:build !linux

package main

import "math"

func freeSpace(string) (uint64, error) { return math.MaxInt64, nil }

// hasNamespaces is nil: sandboxes of other systems need no namespaces.
func hasNamespaces() error { return nil }
