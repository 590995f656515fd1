//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/vault/keyring/keyringtest"
)

// vaultIn sets the backend of the vault's key, and the bus on which palyrad finds the keyring.
func (g *gateway) vaultIn(backend, bus string) {
	g.T.Helper()
	text := string(must.Get(os.ReadFile(g.Config))(g.T))
	g.write(g.Config, strings.Replace(text, `vault.backend = "file"`, `vault.backend = "`+backend+`"`, 1))
	g.Env = append(g.Env, "DBUS_SESSION_BUS_ADDRESS="+bus)
}

// reads fails unless the client can read the earlier secret and result.
func (c *client) reads(when, value string) {
	c.g.T.Helper()
	if r := c.reveal("global/api"); strings.TrimSpace(r.Out) != value {
		c.g.T.Errorf("%s: the secret is %q, %s", when, r.Out, r.Err)
	}
	if out := c.ok("call", "echo", "--idempotency-key", "once", "text=kept at rest"); !strings.Contains(out, "kept at rest") {
		c.g.T.Errorf("%s: the result is %q", when, out)
	}
}

// TestBackupOfAKeyring: a backup contains the key of a vault whose key is in a keyring. The
// restored gateway, on a machine without that keyring, reads secrets and results with a key
// file, and moves the key into its own keyring. Control: a backup that was made while the
// keyring was locked reports the missing key.
func TestBackupOfAKeyring(t *testing.T) {
	t.Parallel()
	k := keyringtest.Start(t)
	g := newGateway(t)
	g.vaultIn("secret_service", k.Address)
	g.Start()
	c := g.local()
	c.keep("vault://global/api", planted)
	c.ok("call", "echo", "--idempotency-key", "once", "text=kept at rest")
	c.ok("vault", "rekey")
	k.Lock(t)
	locked, lockedID := g.backUp("locked.age")
	g.palyrad("backup", filepath.Join(g.Dir, "again.age"), "--recipient", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p").
		Want(t, 0, "not in the backup: the key of the vault, without which the secrets and the results in the backup are unreadable", "is locked", "palyra vault export-recovery")
	k.Unlock(t)
	whole, wholeID := g.backUp("whole.age")
	if out := g.palyrad("backup", filepath.Join(g.Dir, "third.age"), "--recipient", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"); strings.Contains(out.Err, "key of the vault") {
		t.Errorf("with the key it says %s", out.Err)
	}
	if _, err := os.Stat(filepath.Join(g.State, "vault.kek")); err == nil {
		t.Error("the backup left the key in the state directory")
	}
	c.reads("after the backups", planted)
	g.Stop()
	k.End() // the old keyring is gone

	h, said := restoreTo(t, whole, wholeID)
	said.Want(t, 0, "the key of the vault was in secret_service, and is now in "+filepath.Join(h.State, "vault.kek"), "palyrad vault move --to secret_service")
	if info := must.Get(os.Stat(filepath.Join(h.State, "vault.kek")))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("vault.kek has the mode %v", info.Mode())
	}
	h.Start()
	d := h.local()
	d.ok("thaw")
	d.reads("restored", planted)
	h.Stop()
	own := keyringtest.Start(t)
	h.vaultIn("secret_service", own.Address)
	h.palyrad("vault", "move", "--to", "secret_service").Want(t, 0)
	if _, err := os.Stat(filepath.Join(h.State, "vault.kek")); err == nil {
		t.Error("vault.kek is still there")
	}
	h.Start()
	d.reads("moved", planted)
	h.Stop()

	without, said := restoreTo(t, locked, lockedID)
	said.Want(t, 0, "not in the backup: the key of the vault")
	without.vaultIn("secret_service", "")
	without.Start()
	without.local().run("vault", "get", "global/api", "--reveal").Want(t, 6, "VAULT_LOCKED")
}
