//go:build !linux && !darwin && !windows

package kek

// System are the backends of this system, the best first.
func System(o Options) []Backend {
	return []Backend{newFile(o.Dir, o.Gateway, o.Passphrase)}
}
