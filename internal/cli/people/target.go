package people

import (
	"context"
	"crypto/subtle"
	"net"
	"path/filepath"
	"strings"

	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// target is the gateway of a login, and the location of the session.
type target struct {
	client.Known
	// name is the context's name, dir its bundle.
	name, dir string
}

// target finds the gateway: by its address, by the name of a context, or the current one. A gateway
// with a context is verified by the CA in it.
func (a *loginCommands) target(ctx context.Context, o *options, at string) (target, error) {
	contexts, err := a.Contexts()
	if err != nil {
		return target{}, err
	}
	var t target
	if strings.Contains(at, ":") {
		t, err = a.byAddress(ctx, contexts, o, at)
	} else {
		t, err = a.byContext(contexts, at)
	}
	if err != nil {
		return t, err
	}
	if o.fingerprint != "" && !matches(t, o.fingerprint) {
		return t, reason.Errorf(reason.VerificationFailed, "the CA of %s has the fingerprint %s, which does not match --ca-fingerprint", t.Address, fingerprint(t)).
			WithRemedy("Ask the gateway's administrator for the fingerprint. If it is the one that you specified, another server responds at the address.")
	}
	if o.name != "" {
		t.name = o.name
	}
	t.dir = filepath.Join(a.Xdg("XDG_CONFIG_HOME", ".config"), "palyra", "logins", t.name)
	was, taken := contexts.Bundles[t.name]
	if taken && was != t.dir || t.name == client.LocalContext {
		return t, reason.Errorf(reason.AlreadyExists, "the context %s already has another credential", t.name).WithRemedy("Give the login another name with --name.")
	}
	check := client.Contexts{}
	return t, check.Add(t.name, t.dir)
}

// byContext returns the gateway of a context, "" for the credential in use.
func (a *loginCommands) byContext(contexts client.Contexts, name string) (t target, err error) {
	dir := ""
	if name != "" {
		if dir, err = contexts.Bundle(name); err != nil {
			return t, err
		}
	}
	if dir == "" {
		if dir, err = a.BundleInUse(); err != nil {
			return t, err
		}
	}
	b, err := identity.ReadBundle(dir)
	if err != nil {
		return t, command.Usage("a gateway is required: no credential is in use").
			WithRemedy("Specify it: `palyra login HOST:PORT`.")
	}
	t.Known = client.Known{Address: b.Address, ServerName: b.ServerName, Root: b.Root}
	if t.name = nameOf(b.Address); !b.Login {
		return t, nil
	}
	for one, bundle := range contexts.Bundles {
		if bundle == dir {
			t.name = one
		}
	}
	return t, nil
}

// byAddress returns the gateway at an address. For an unknown one it shows the CA, which the user
// must compare.
func (a *loginCommands) byAddress(ctx context.Context, contexts client.Contexts, o *options, address string) (t target, err error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return t, command.Usage("address %q: want HOST:PORT", address)
	}
	t.name = nameOf(address)
	for _, name := range contexts.Names() {
		if b, err := identity.ReadBundle(contexts.Bundles[name]); err == nil && b.Address == address {
			t.Known = client.Known{Address: b.Address, ServerName: b.ServerName, Root: b.Root}
			if b.Login {
				t.name = name
			}
			return t, nil
		}
	}
	if t.Known, err = a.Dialer.Meet(ctx, address); err != nil || o.fingerprint != "" {
		return t, err
	}
	if !a.Interactive() {
		return t, reason.Errorf(reason.VerificationFailed, "the gateway at %s is unknown here, and its CA has the fingerprint %s", address, fingerprint(t)).
			WithRemedy("Compare it with the one from the gateway's administrator, and repeat the command with --ca-fingerprint sha256:HEX.")
	}
	a.Say("The gateway at %s is unknown here. The fingerprint of its CA is", address)
	a.Say("  %s", fingerprint(t))
	return t, a.Agree(ctx, false, "Does it match the one from the gateway's administrator?")
}

// fingerprint returns "sha256:" and the hex digest of the CA's certificate.
func fingerprint(t target) string { return canonical.Digest(t.Root.Raw) }

// matches compares a fingerprint in any common notation.
func matches(t target, given string) bool {
	given = strings.ToLower(strings.NewReplacer(":", "", " ", "").Replace(given))
	if !strings.HasPrefix(given, "sha256") {
		given = "sha256" + given
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(strings.Replace(fingerprint(t), ":", "", 1))) == 1
}

// nameOf derives a context name from an address.
func nameOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	host = strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(host)), "-.")
	if host == "" {
		return "gateway"
	}
	return host[:min(len(host), 63)]
}
