//go:build !linux && !darwin && !windows

package kek

// System returns the backends of this system, the best one first.
func System(o Options) []Backend {
	return []Backend{newFile(o.Dir, o.Gateway, o.Passphrase)}
}
