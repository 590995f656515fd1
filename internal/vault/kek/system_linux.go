package kek

// System returns the backends of this system, the best one first.
func System(o Options) []Backend {
	list := []Backend{newFile(o.Dir, o.Gateway, o.Passphrase)}
	if o.Env == nil {
		return list
	}
	return append([]Backend{newSession(SecretService, o.Gateway, o.Env)}, list...)
}
