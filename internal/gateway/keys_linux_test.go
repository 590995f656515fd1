package gateway

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/statedir"
	"palyra/internal/gateway/doctor"
	"palyra/internal/identity/tpm/tpmtest"
	"palyra/internal/ops/keyadmin"
)

// places returns the keys and their places from the status: "root tpm, issuing tpm, ...".
func (d *running) places() string {
	var list []string
	for _, k := range d.status().GetKeys() {
		list = append(list, k.GetKey()+" "+k.GetPlace())
	}
	return strings.Join(list, ", ")
}

// doesNotStart starts a daemon, which must be refused.
func doesNotStart(t *testing.T, what string, cfg *config.Config) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := Run(ctx, Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Ready: func(Addresses) {
		t.Errorf("%s: it started", what)
		stop()
	}})
	reasontest.Want(t, what, err, reason.ConfigInvalid)
}

// TestGatewayInATPM: a whole gateway whose keys are in a TPM serves, signs and rotates, and
// starts only with that TPM.
func TestGatewayInATPM(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	cfg := testConfig(t)
	cfg.Keys = config.KeyStore{Store: config.KeysInTPM, TPMDevice: e.Device}
	d := start(t, cfg)
	if got := d.places(); got != "root tpm, issuing tpm, notary tpm, journal tpm, operator file" {
		t.Error(got)
	}
	if text := string(d.export()); !strings.Contains(text, `"keys":{"issuing":"tpm","journal":"tpm","notary":"tpm","root":"tpm"}`) {
		t.Error("the journal does not say where the keys lived")
	}
	if x := checkOf(t, cfg, "key places"); x.Result != doctor.OK || !strings.Contains(x.Detail, "root: tpm ("+e.Device) || !strings.Contains(x.Detail, "operator: file") {
		t.Errorf("beside a daemon that runs: %+v", x)
	}
	before := d.keySet()
	e.Halt() // the keys unsealed at the start are sufficient until a certificate is due
	must.Get(verifiedWith(d.export(), before))(t)
	e.Boot(t)
	d.end()
	r := must.Get(RotateKey(t.Context(), cfg, keyadmin.Journal))(t)
	d = start(t, cfg)
	if sum, err := verifiedWith(d.export(), d.keySet()); err != nil || sum.Rotations != 1 || r.Key.Past != 1 {
		t.Errorf("%+v, %+v, %v", sum, r, err)
	}
	d.end()

	other, files := *cfg, *cfg
	other.Keys.TPMDevice = tpmtest.Start(t).Device
	doesNotStart(t, "with another TPM", &other)
	if x := checkOf(t, &other, "keys"); x.Result != doctor.Failed || !strings.Contains(x.Remedy, "Start palyrad with the TPM that made the keys") {
		t.Errorf("with another TPM: %+v", x)
	}
	files.Keys.Store = config.KeysInFiles
	doesNotStart(t, "with keys.store = file", &files)
	start(t, cfg).end()
}

// TestUnsuitableTPMLeavesNoKeys: a TPM that cannot hold the keys of a new gateway leaves no keys
// behind.
func TestUnsuitableTPMLeavesNoKeys(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	e.SetOwnerPassword(t, "secret")
	cfg := testConfig(t)
	cfg.Keys = config.KeyStore{Store: config.KeysInTPM, TPMDevice: e.Device}
	doesNotStart(t, "a TPM whose owner has a password", cfg)
	if _, err := os.Stat(statedir.Authority(cfg.StateDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("keys were made: %v", err)
	}
	cfg.Keys.Store = config.KeysInFiles
	start(t, cfg).end() // the remedy: keys in files
}

func TestKeysSealCommand(t *testing.T) {
	t.Parallel()
	e := tpmtest.Start(t)
	cfg := testConfig(t)
	seal := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := Command(&out, &out)
		c.SetArgs(append([]string{"keys", "seal", "--state-dir", cfg.StateDir, "--keys-tpm-device", e.Device}, args...))
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	_, err := seal("--keys-store=tpm")
	reasontest.Want(t, "before there is a gateway", err, reason.ConfigInvalid)
	d := start(t, cfg)
	was, root, early := d.keySet(), d.status().GetGatewayId(), d.export()
	if _, err := seal("--keys-store=tpm"); !errors.Is(err, statedir.ErrInUse) {
		t.Errorf("while palyrad runs: %v", err)
	}
	d.end()
	_, err = seal()
	reasontest.Want(t, "with keys.store = file", err, reason.ConfigInvalid)
	text, err := seal("--keys-store=tpm")
	if err != nil || !strings.Contains(text, "root     file  ca/root.pem, mode 0600\nissuing  tpm   "+e.Device) {
		t.Errorf("%v in\n%s", err, text)
	}
	if text, err := seal("--keys-store=tpm"); err != nil || !strings.Contains(text, "already") {
		t.Errorf("again: %v in\n%s", err, text)
	}
	doesNotStart(t, "with keys.store = file", cfg)
	cfg.Keys = config.KeyStore{Store: config.KeysInTPM, TPMDevice: e.Device}
	d = start(t, cfg)
	if d.status().GetGatewayId() != root || d.keySet().CheckpointKeys[0].Verifier != was.CheckpointKeys[0].Verifier {
		t.Error("it is another gateway")
	}
	if got := d.places(); got != "root file, issuing tpm, notary tpm, journal tpm, operator file" {
		t.Error(got)
	}
	for _, export := range [][]byte{early, d.export()} {
		if _, err := verifiedWith(export, was); err != nil {
			t.Error(err)
		}
	}
}
