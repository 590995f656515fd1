package vaultkey_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/ops/vaultkey"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/vault"
	"palyra/internal/vault/kek"
)

// exported encrypts keys like palyra, which anyone with the recipient can do.
func exported(t *testing.T, to age.Recipient, keys ...kek.Exported) *bytes.Reader {
	t.Helper()
	text := must.Get(json.Marshal(vault.Recovery{Format: "palyra vault recovery v1", Gateway: sqlitetest.Origin, ExportedAt: time.Now(), Keys: keys}))(t)
	var out bytes.Buffer
	a := armor.NewWriter(&out)
	w := must.Get(age.Encrypt(a, to))(t)
	must.Get(w.Write(text))(t)
	must.Do(t, w.Close())
	must.Do(t, a.Close())
	return bytes.NewReader(out.Bytes())
}

type anybody struct{}

func (anybody) Permit(vault.Borrower, access.Permission, vault.Ref) error { return nil }

// TestRecoverRefusesForeignKeys: without the pin, only the stored secrets show which keys are
// the gateway's. An export with foreign keys under the ids of the real ones is refused.
// Controls: the real keys, and a gateway without secrets, which cannot detect foreign keys.
func TestRecoverRefusesForeignKeys(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	id := must.Get(age.GenerateX25519Identity())(t)
	for name, c := range map[string]struct {
		foreign, keeps bool
		want           reason.Code
	}{
		"foreign keys":                              {true, true, reason.VaultKeyMissing},
		"the control: its own":                      {false, true, ""},
		"the control: foreign, and nothing is kept": {true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := sqlitetest.Open(t)
			cfg := config.Default()
			cfg.StateDir, cfg.Vault.Backend = t.TempDir(), kek.InFile
			must.Do(t, os.Chmod(cfg.StateDir, 0o700))
			ring := must.Get(vaultkey.Open(cfg, sqlitetest.Origin, db, nil))(t)
			keys := must.Get(ring.Export(ctx))(t)
			if c.keeps {
				s := must.Get(vault.New(vault.Config{Store: sqlite.NewSecrets(db), Keys: vault.NewWrapper(ring, sqlite.NewSecrets(db)), Judge: anybody{}}))(t)
				must.Get(s.Put(ctx, access.Caller{Principal: access.User("ann")}, vault.Ref{Scope: "global", Key: "k"}, []byte("a value"), vault.Metadata{}))(t)
			}
			if c.foreign {
				keys[0].Key = bytes.Repeat([]byte{7}, len(keys[0].Key))
			}
			must.Do(t, os.Remove(statedir.VaultPin(cfg.StateDir)))
			must.Do(t, os.Remove(statedir.VaultKey(cfg.StateDir)))
			_, err := vaultkey.Recover(ctx, cfg, sqlitetest.Origin, db, []vault.Boxes{sqlite.NewSecrets(db), sqlite.NewResults(db)}, exported(t, id.Recipient(), keys...), strings.NewReader(id.String()))
			if reason.Of(err) != c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := os.Stat(statedir.VaultKey(cfg.StateDir)); (err == nil) != (c.want == "") {
				t.Errorf("a key is in its place: %v", err == nil)
			}
		})
	}
}
