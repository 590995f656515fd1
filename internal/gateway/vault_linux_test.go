package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/gateway/doctor"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/keyring/keyringtest"
)

// awaitVault polls the status until the vault is locked, or unlocked, as required.
func (d *running) awaitVault(locked bool) *palyrav1.VaultStatus {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), must.Patience)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		v := d.status().GetVault()
		if v.GetLocked() == locked {
			return v
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			d.t.Fatalf("the vault stays as it is: %v", v)
		}
	}
}

// runCommand runs a command of palyrad with a gateway's settings.
func runCommand(t *testing.T, cfg *config.Config, args ...string) (out, said string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "palyra.toml")
	must.Write(t, file, fmt.Sprintf("state_dir = %q\n[storage]\nreserve_bytes = 1048576\n[vault]\nbackend = %q\n", cfg.StateDir, cfg.Vault.Backend))
	var stdout, stderr bytes.Buffer
	c := Command(&stdout, &stderr)
	c.SetArgs(append(args, "--config", file))
	err = c.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// TestVaultInAKeyring: a gateway whose vault key is in a session's keyring starts while the
// keyring is locked, and reports this. It continues by itself once the keyring is unlocked. No
// key file is created instead.
//
// Not parallel: it sets DBUS_SESSION_BUS_ADDRESS of the process.
func TestVaultInAKeyring(t *testing.T) {
	k := keyringtest.Start(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", k.Address)
	cfg := testConfig(t)
	cfg.Vault.Backend = kek.Auto
	d := start(t, cfg)
	if v := d.status().GetVault(); v.GetLocked() || v.GetBackend() != kek.SecretService || v.GetSummary() != "secret service" || v.GetKeyId() == "" {
		t.Fatalf("%v", v)
	}
	if x := checkOf(t, cfg, "vault"); x.Result != doctor.OK || !strings.HasPrefix(x.Detail, "secret service, key kek_") {
		t.Errorf("%+v", x)
	}
	id := d.status().GetVault().GetKeyId()
	d.end()
	k.Lock(t)
	d = start(t, cfg)
	v := d.awaitVault(true)
	if v.GetBackend() != kek.SecretService || v.GetReason() != string(reason.VaultLocked) || !strings.HasPrefix(v.GetSummary(), "secret service, locked: ") || v.GetRemedy() == "" {
		t.Errorf("%v", v)
	}
	if x := checkOf(t, cfg, "vault"); x.Result != doctor.Warning || !strings.Contains(x.Detail, "locked") || x.Remedy == "" {
		t.Errorf("%+v", x)
	}
	if !d.status().GetReady() {
		t.Error("a locked vault keeps the gateway from being ready")
	}
	k.Unlock(t)
	if v := d.awaitVault(false); v.GetKeyId() != id {
		t.Errorf("%v", v)
	}
	if _, err := os.Stat(filepath.Join(cfg.StateDir, "vault.kek")); err == nil {
		t.Error("a key was made in a file")
	}
	d.end()
}

// The key can be moved only while palyrad is stopped. Afterwards the settings must name the new
// backend, and the journal has the move.
//
// Not parallel: it sets DBUS_SESSION_BUS_ADDRESS of the process.
func TestVaultMove(t *testing.T) {
	k := keyringtest.Start(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", k.Address)
	cfg := testConfig(t)
	d := start(t, cfg)
	id := d.status().GetVault().GetKeyId()
	_, _, err := runCommand(t, cfg, "vault", "move", "--to", "secret_service")
	reasontest.Want(t, "while palyrad runs", err, reason.ConfigInvalid)
	d.end()
	for name, args := range map[string][]string{
		"nowhere": nil, "no such place": {"--to", "pocket"}, "a passphrase for a keyring": {"--to", "secret_service", "--without-passphrase"},
		"two passphrases": {"--to", "file", "--without-passphrase", "--new-passphrase-file", "x"},
	} {
		_, _, err := runCommand(t, cfg, append([]string{"vault", "move"}, args...)...)
		reasontest.Want(t, name, err, reason.InvalidInput)
	}
	out, said, err := runCommand(t, cfg, "vault", "move", "--to", "secret_service")
	must.Do(t, err)
	if out != "the key of the vault is in: secret service ("+id+")\n" || !strings.Contains(said, `next: set vault.backend to "secret_service"`) {
		t.Errorf("%q, %q", out, said)
	}
	if _, err := os.Stat(filepath.Join(cfg.StateDir, "vault.kek")); err == nil {
		t.Error("the key is in the file, too")
	}
	doesNotStart(t, "with the setting of before", cfg)
	cfg.Vault.Backend = kek.Auto
	d = start(t, cfg)
	if v := d.status().GetVault(); v.GetLocked() || v.GetBackend() != kek.SecretService || v.GetKeyId() != id {
		t.Errorf("%v", v)
	}
	text := string(d.export())
	for _, backend := range []string{"file", "secret_service"} {
		if !strings.Contains(text, `"payload":{"backend":"`+backend+`","id":"`+id+`"}`) {
			t.Errorf("the journal does not say %s", backend)
		}
	}
	d.end()
}

// A key file can be protected with a passphrase, without which the next start is locked.
func TestVaultPassphrase(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	d := start(t, cfg)
	id := d.status().GetVault().GetKeyId()
	d.end()
	file := filepath.Join(t.TempDir(), "phrase")
	must.Write(t, file, "correct horse\n")
	out, _, err := runCommand(t, cfg, "vault", "move", "--to", "file", "--new-passphrase-file", file)
	must.Do(t, err)
	if !strings.Contains(out, id) {
		t.Error(out)
	}
	d = start(t, cfg)
	if v := d.awaitVault(true); !strings.Contains(v.GetRemedy(), "vault.passphrase_file") {
		t.Errorf("%v", v)
	}
	d.end()
	cfg.Vault.PassphraseFile = file
	d = start(t, cfg)
	if v := d.awaitVault(false); v.GetKeyId() != id {
		t.Errorf("%v", v)
	}
	d.end()
}

// TestVaultKeyMissing: a missing key is reported and not replaced by a new one. The same
// applies to a missing pin.
func TestVaultKeyMissing(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{"vault.kek": "is missing in the backend file", "vault.json": ""} {
		cfg := testConfig(t)
		d := start(t, cfg)
		id := d.status().GetVault().GetKeyId()
		d.end()
		path := filepath.Join(cfg.StateDir, name)
		must.Do(t, os.Rename(path, path+".away"))
		if name == "vault.json" { // with both missing, only the journal shows that there was a key
			must.Do(t, os.Rename(filepath.Join(cfg.StateDir, "vault.kek"), filepath.Join(cfg.StateDir, "kek.away")))
		}
		d = start(t, cfg)
		v := d.awaitVault(true)
		if v.GetReason() != string(reason.VaultKeyMissing) || !strings.Contains(v.GetSummary(), says) {
			t.Errorf("%s: %v", name, v)
		}
		if x := checkOf(t, cfg, "vault"); name == "vault.kek" && x.Result != doctor.Failed {
			t.Errorf("%s: %+v", name, x)
		}
		d.end()
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was made anew", name)
		}
		must.Do(t, os.Rename(path+".away", path))
		if name == "vault.json" {
			must.Do(t, os.Rename(filepath.Join(cfg.StateDir, "kek.away"), filepath.Join(cfg.StateDir, "vault.kek")))
		}
		d = start(t, cfg)
		if v := d.awaitVault(false); v.GetKeyId() != id {
			t.Errorf("%s restored: %v", name, v)
		}
		d.end()
	}
}
