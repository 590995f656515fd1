package kek

import "palyra/internal/vault/kek/dpapi"

// System are the backends of this system, the best first.
func System(o Options) []Backend {
	return []Backend{newProtected(o.Dir, o.Gateway, protection{dpapi.Protect, dpapi.Unprotect}), newFile(o.Dir, o.Gateway, o.Passphrase)}
}
