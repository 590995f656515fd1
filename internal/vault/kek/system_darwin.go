package kek

// System returns the backends of this system, the best one first.
func System(o Options) []Backend {
	return []Backend{newSession(Keychain, o.Gateway, o.Env), newFile(o.Dir, o.Gateway, o.Passphrase)}
}
