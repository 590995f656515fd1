package kek

// System are the backends of this system, the best first.
func System(o Options) []Backend {
	return []Backend{newSession(Keychain, o.Gateway, o.Env), newFile(o.Dir, o.Gateway, o.Passphrase)}
}
