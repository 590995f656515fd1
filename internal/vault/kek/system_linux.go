package kek

// System are the backends of this system, the best first.
func System(o Options) []Backend {
	list := []Backend{newFile(o.Dir, o.Gateway, o.Passphrase)}
	if o.Env == nil {
		return list
	}
	return append([]Backend{newSession(SecretService, o.Gateway, o.Env)}, list...)
}
