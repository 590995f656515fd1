package config

import (
	"fmt"
	"slices"
	"strings"
)

// Flag is the flag of palyrad for a key.
type Flag struct {
	Key string
	// Name is the name without leading hyphens.
	Name string
	// Group is the heading of the flag in a help text.
	Group string
	// Value is the placeholder of the value in a help text: "HOST:PORT".
	Value string
	// Usage describes the key and its default.
	Usage string
}

// flags are the keys that people set for one start of palyrad, with their heading, the placeholder
// of the value and their help. The file and the variables set all keys.
var flags = []struct{ key, group, value, usage string }{
	{"state_dir", "General", "DIR", "where palyrad keeps its keys, journal and blobs"},
	{"trust_domain", "General", "NAME", "authority of the SPIFFE ids that are issued; fixed once the CA exists (default: a name that no other gateway has)"},
	{"listen.api", "Listening", "HOST:PORT", "where the API listens, with TLS"},
	{"listen.allow_remote", "Listening", "true|false", "permits an API address that other machines can reach"},
	{"listen.agents", "Listening", "HOST:PORT", "address of MCP and hooks for agents on this host, over plain HTTP on loopback; empty to disable"},
	{"listen.console", "Listening", "HOST:PORT", "address of the web console, on loopback; empty to disable"},
	{"listen.metrics", "Listening", "HOST:PORT", "address of metrics over plain HTTP, on loopback; empty to disable"},
	{"keys.store", "Keys", "PLACE", "where the gateway's private keys live: file or tpm"},
	{"keys.tpm_device", "Keys", "FILE", "device of the TPM, or the Unix socket of one in software"},
	{"vault.backend", "Keys", "PLACE", "where the vault's key is: auto, file, secret_service, keychain or dpapi"},
	{"vault.passphrase_file", "Keys", "FILE", "file with the passphrase of the vault's key, for the backend file"},
	{"log.level", "Log", "LEVEL", "debug, info, warn or error"},
	{"log.format", "Log", "FORMAT", "text or json"},
	{"policy.dir", "Policies", "DIR", "directory of *.cedar files that extend the built-in policies"},
	{"process_runner.enabled", "Programs and their sandbox", "true|false", "whether process.run may start programs"},
	{"process_runner.tier", "Programs and their sandbox", "TIER", "c: separate root and namespaces; b: filters and limits around a process that sees the machine's files"},
}

// Flags lists the keys of palyrad that a flag can set.
func Flags() []Flag {
	keys := keysOf(Default())
	var list []Flag
	for _, f := range flags {
		k := keys[slices.IndexFunc(keys, func(k key) bool { return k.name == f.key })]
		if !k.value.IsZero() {
			f.usage += fmt.Sprintf(" (default %v)", k.value)
		}
		list = append(list, Flag{Key: f.key, Name: FlagName(f.key), Group: f.group, Value: f.value, Usage: f.usage})
	}
	return list
}

// KeyWithoutFlag returns the key, and its variable or "", of which a flag would have this name, if
// that key has no flag.
func KeyWithoutFlag(flag string) (name, variable string, exists bool) {
	if slices.ContainsFunc(Flags(), func(f Flag) bool { return f.Name == flag }) {
		return "", "", false
	}
	for _, k := range keysOf(Default()) {
		if FlagName(k.name) == flag && !strings.HasPrefix(k.name, "client.") {
			return k.name, k.env, true
		}
	}
	return "", "", false
}
