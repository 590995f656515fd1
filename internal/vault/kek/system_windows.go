package kek

import "palyra/internal/vault/kek/dpapi"

// System returns the backends of this system, the best one first.
func System(o Options) []Backend {
	return []Backend{newProtected(o.Dir, o.Gateway, protection{dpapi.Protect, dpapi.Unprotect}), newFile(o.Dir, o.Gateway, o.Passphrase)}
}
