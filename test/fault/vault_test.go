//go:build linux

package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/internal/vault/keyring/keyringtest"
)

// marked is the prefix of the secrets' values in these tests. It must not appear in any file or
// output of palyrad.
const marked = `fault-"Vault"+Marker/<0123456789>==`

// secretsOf returns the vault client of the running palyrad, for the local operator.
func (d *daemon) secretsOf() palyrav1connect.VaultServiceClient {
	d.T.Helper()
	bundle := must.Get(identity.ReadBundle(filepath.Join(d.view, d.State, "operator")))(d.T)
	transport := &http.Transport{TLSClientConfig: bundle.ClientTLS(), ForceAttemptHTTP2: true}
	d.T.Cleanup(transport.CloseIdleConnections)
	return palyrav1connect.NewVaultServiceClient(&http.Client{Transport: transport, Timeout: requestPatience}, "https://"+bundle.Address)
}

func put(ctx context.Context, v palyrav1connect.VaultServiceClient, key, value string) error {
	_, err := v.PutSecret(ctx, &palyrav1.PutSecretRequest{Ref: "global/" + key, Value: []byte(value)})
	return err
}

func reveal(ctx context.Context, v palyrav1connect.VaultServiceClient, key string) (string, error) {
	res, err := v.RevealSecret(ctx, &palyrav1.RevealSecretRequest{Ref: "global/" + key})
	return string(res.GetValue()), err
}

// kept is the history of one secret: the number of the last acknowledged value, and of the last
// attempted one.
type kept struct{ acknowledged, tried int }

// holds returns an error if the value contradicts the history.
func (k kept) holds(key, value string, err error) error {
	if connect.CodeOf(err) == connect.CodeNotFound && err != nil && k.acknowledged == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	text, ok := strings.CutPrefix(value, marked+" "+key+" ")
	n, failed := strconv.Atoi(text)
	if !ok || failed != nil || n < k.acknowledged || n > k.tried {
		return fmt.Errorf("the value of %s is %q; %d was acknowledged, and %d was tried", key, value, k.acknowledged, k.tried)
	}
	return nil
}

// vaultLoad puts and reads secrets until palyrad is gone; each writer has its own secrets.
func (d *daemon) vaultLoad(ctx context.Context, keys map[string]kept, done *sync.WaitGroup, started func()) {
	const writers = 4
	var mu sync.Mutex
	for w := range writers {
		v := d.secretsOf()
		done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("w%d-%03d", w, n%60)
				mu.Lock()
				k := keys[key]
				k.tried++
				keys[key] = k
				mu.Unlock()
				if put(ctx, v, key, fmt.Sprintf("%s %s %d", marked, key, k.tried)) != nil {
					return
				}
				k.acknowledged = k.tried
				mu.Lock()
				keys[key] = k
				mu.Unlock()
				started()
				if value, err := reveal(ctx, v, key); err == nil {
					if wrong := k.holds(key, value, nil); wrong != nil {
						d.T.Error(wrong)
					}
				}
			}
		})
	}
}

// TestVaultKilled kills palyrad at random moments while clients put and read secrets, calls
// store results, and the vault is rekeyed. Afterwards every acknowledged value, or a later one,
// is readable, and the rekey has completed.
func TestVaultKilled(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := prepare(t)
	d.Keeps("the vault's values", marked)
	keys := map[string]kept{}
	var told []reply
	const rounds = 8
	for n := range rounds {
		d.Start()
		v, c := d.secretsOf(), d.dial()
		for key, k := range keys {
			value, err := reveal(t.Context(), v, key)
			if wrong := k.holds(key, value, err); wrong != nil {
				t.Fatalf("after kill %d: %v", n, wrong)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		began := make(chan struct{}, 1000)
		d.vaultLoad(ctx, keys, &group, func() {
			select {
			case began <- struct{}{}:
			default:
			}
		})
		group.Go(func() { told = append(told, c.patch(ctx, fmt.Sprintf("r%d", n))) })
		for range 10 + random.IntN(60) {
			must.Receive(t, "a secret is put", began)
		}
		if n%2 == 1 {
			rekeying := make(chan struct{})
			r := d.secretsOf()
			group.Go(func() {
				close(rekeying)
				_, _ = r.RekeyVault(ctx, &palyrav1.RekeyVaultRequest{})
			})
			<-rekeying
			for range random.IntN(12) { // at a different moment each time
				select {
				case <-began:
				case <-time.After(must.Patience):
				}
			}
		}
		d.Kill()
		cancel()
		group.Wait()
	}
	d.Start()
	v := d.secretsOf()
	must.Eventually(t, "the rekey has come to its end", func() (bool, string) {
		s, err := v.GetVaultStatus(t.Context(), &palyrav1.GetVaultStatusRequest{})
		return err == nil && len(s.GetOldKeyIds()) == 0 && !s.GetLocked(), fmt.Sprint(s, err)
	})
	for key, k := range keys {
		value, err := reveal(t.Context(), v, key)
		if wrong := k.holds(key, value, err); wrong != nil {
			t.Error(wrong)
		}
	}
	list, err := v.ListSecrets(t.Context(), &palyrav1.ListSecretsRequest{PageSize: 1000})
	must.Do(t, err)
	for _, s := range list.GetSecrets() {
		if s.GetProblem() != "" {
			t.Errorf("%s: %s", s.GetRef(), s.GetProblem())
		}
	}
	c := d.dial()
	for _, r := range told {
		if r.attestation == "" {
			continue
		}
		if _, err := c.gateway.GetCall(t.Context(), &palyrav1.GetCallRequest{ProposalId: r.proposal}); err != nil {
			t.Errorf("the call that wrote %s: %v", r.file, err)
		}
	}
	d.Stop()
	d.holds(told)
	t.Logf("%d kills, %d secrets", rounds, len(keys))
}

// TestVaultOnAFullDisk: a put or a rekey without enough disk space has no partial effect, its
// error names the next step, and all data remains. Both succeed once there is enough space.
func TestVaultOnAFullDisk(t *testing.T) {
	t.Parallel()
	d, disk := onSmallDisk(t, "12m")
	d.Keeps("the vault's values", marked)
	v := d.secretsOf()
	keys := map[string]kept{}
	try := func(key string) error {
		k := keys[key]
		k.tried++
		err := put(t.Context(), v, key, fmt.Sprintf("%s %s %d", marked, key, k.tried))
		if err == nil {
			k.acknowledged = k.tried
		}
		keys[key] = k
		return err
	}
	check := func(when string) {
		t.Helper()
		for key, k := range keys {
			value, err := reveal(t.Context(), v, key)
			if wrong := k.holds(key, value, err); wrong != nil {
				t.Errorf("%s: %v", when, wrong)
			}
		}
	}
	for n := range 20 {
		must.Do(t, try(fmt.Sprintf("k%d", n)))
	}
	disk.fill(t)
	var failed error
	for n := 0; failed == nil && n < 2000; n++ {
		failed = try(fmt.Sprintf("k%d", n%20))
	}
	if code, next := codeOf(failed); code != "JOURNAL_UNAVAILABLE" || next == "" {
		t.Errorf("a put on a full disk: %v, next %q", failed, next)
	}
	_, err := v.RekeyVault(t.Context(), &palyrav1.RekeyVaultRequest{})
	if code, next := codeOf(err); code == "" || code == "INTERNAL" || next == "" {
		t.Errorf("a rekey on a full disk: %v, next %q", err, next)
	}
	disk.free(t)
	must.Eventually(t, "secrets can be put again", func() (bool, string) {
		err := try("after")
		return err == nil, fmt.Sprint(err)
	})
	check("with room")
	if _, err := v.RekeyVault(t.Context(), &palyrav1.RekeyVaultRequest{}); err != nil {
		t.Errorf("a rekey with room: %v", err)
	}
	check("after the rekey")
	if s := must.Get(v.GetVaultStatus(t.Context(), &palyrav1.GetVaultStatusRequest{}))(t); len(s.GetOldKeyIds()) != 0 {
		t.Errorf("keys of before are left: %v", s)
	}
	d.Stop()
}

// execute modifies a store without palyrad.
func execute(t *testing.T, path, sql string) {
	t.Helper()
	conn := must.Get(zs.OpenConn(path, zs.OpenReadWrite))(t)
	must.Check(t, sqlitex.ExecuteScript(conn, sql, nil))
	must.Do(t, conn.Close())
}

// TestVaultRows: a changed byte in any column, or two exchanged rows, make only that secret
// unreadable, with an error that names it. palyrad starts, and all other secrets open. An
// unreadable secret is not overwritten, and the list marks it.
func TestVaultRows(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Keeps("the vault's values", marked)
	flipped := func(table, column string) string {
		return fmt.Sprintf("UPDATE %[1]s SET %[2]s = CAST(substr(%[2]s, 1, length(%[2]s) - 1) || CASE substr(%[2]s, -1) WHEN x'00' THEN x'01' ELSE x'00' END AS BLOB)", table, column)
	}
	others := func(table, column string) string {
		return fmt.Sprintf("UPDATE %[1]s SET %[2]s = (SELECT %[2]s FROM %[1]s o WHERE o.key = 'whole')", table, column)
	}
	damages := map[string]string{
		"seal": flipped("secrets", "seal"), "metadata": flipped("secrets", "metadata"), "newest": "UPDATE secrets SET newest = 7",
		"box": flipped("secret_versions", "box"), "wrapped_key": flipped("secret_versions", "wrapped_key"), "kek": "UPDATE secret_versions SET kek = 'kek_0000000000000000'",
		"version": "UPDATE secret_versions SET version = 2", "other-box": others("secret_versions", "box"), "other-key": others("secret_versions", "wrapped_key"),
		"other-metadata": others("secrets", "metadata"), "other-seal": others("secrets", "seal"), "no-version": "DELETE FROM secret_versions",
	}
	v := d.secretsOf()
	must.Do(t, put(t.Context(), v, "whole", marked))
	for key := range damages {
		must.Do(t, put(t.Context(), v, key, marked+" "+key))
	}
	d.Stop()
	for key, sql := range damages {
		execute(t, d.store(), sql+" WHERE scope = 'global' AND key = '"+key+"'")
	}
	d.Start()
	v = d.secretsOf()
	for key := range damages {
		want := "SECRET_UNREADABLE"
		if key == "kek" {
			want = "VAULT_KEY_MISSING"
		}
		value, err := reveal(t.Context(), v, key)
		if code, next := codeOf(err); code != want || next == "" || !strings.Contains(err.Error(), "global/"+key) || value != "" {
			t.Errorf("%s: %q, %v, next %q, want %s", key, value, err, next, want)
		}
		boxAlone := key == "box" || key == "other-box" // its metadata was verified, and a new value does not need the old one
		if err := put(t.Context(), v, key, marked+" over it"); (err == nil) != boxAlone {
			t.Errorf("%s: something is put over it: %v", key, err)
		}
	}
	if value, err := reveal(t.Context(), v, "whole"); err != nil || value != marked {
		t.Errorf("the one that is whole: %q, %v", value, err)
	}
	list := must.Get(v.ListSecrets(t.Context(), &palyrav1.ListSecretsRequest{PageSize: 100}))(t)
	for _, s := range list.GetSecrets() {
		key := strings.TrimPrefix(s.GetRef(), "vault://global/")
		if readable := key == "whole" || key == "box" || key == "other-box"; (s.GetProblem() == "") != readable {
			t.Errorf("the list says of %s: %q", key, s.GetProblem())
		}
	}
	if n := len(list.GetSecrets()); n != len(damages)+1 {
		t.Errorf("the list has %d secrets", n)
	}
	// A rekey keeps the former keys while a value is unreadable.
	if done := must.Get(v.RekeyVault(t.Context(), &palyrav1.RekeyVaultRequest{}))(t); len(done.GetUnreadable()) == 0 || len(done.GetDroppedKeyIds()) != 0 {
		t.Errorf("rekeyed: %v", done)
	}
	if value, err := reveal(t.Context(), v, "whole"); err != nil || value != marked {
		t.Errorf("after a rekey: %q, %v", value, err)
	}
	d.Stop()
}

// TestVaultOlderRows: rows of an older copy of the store are copied into it while palyrad is
// stopped. These rows are authentic. Only the value that the journal names as the latest is
// readable: no replaced value, and no removed secret. Control: a secret with the latest rows.
func TestVaultOlderRows(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Keeps("the vault's values", marked)
	v := d.secretsOf()
	for _, key := range []string{"replaced", "removed", "newest"} {
		must.Do(t, put(t.Context(), v, key, marked+" "+key))
	}
	d.Stop()
	aside := filepath.Join(d.Dir, "aside.db")
	must.Write(t, aside, string(must.Get(os.ReadFile(d.store()))(t)))
	d.Start()
	v = d.secretsOf()
	must.Do(t, put(t.Context(), v, "replaced", marked+" since"))
	must.Get(v.RemoveSecret(t.Context(), &palyrav1.RemoveSecretRequest{Ref: "global/removed"}))(t)
	d.Stop()
	execute(t, d.store(), "ATTACH '"+aside+`' AS o;
DELETE FROM secret_versions; INSERT INTO secret_versions SELECT * FROM o.secret_versions;
DELETE FROM secrets; INSERT INTO secrets SELECT * FROM o.secrets;`)
	d.Start()
	v = d.secretsOf()
	for key, says := range map[string]string{"replaced": "the journal records 2", "removed": "the journal records its removal"} {
		value, err := reveal(t.Context(), v, key)
		if code, next := codeOf(err); code != "SECRET_UNREADABLE" || !strings.Contains(err.Error(), says) || !strings.Contains(next, "palyra vault rm") || value != "" {
			t.Errorf("%s: %q, %v, next %q", key, value, err, next)
		}
	}
	if value, err := reveal(t.Context(), v, "newest"); err != nil || value != marked+" newest" {
		t.Errorf("the control: %q, %v", value, err)
	}
	d.Stop()
}

// TestVaultKeyringUnavailable locks or kills a keyring while palyrad runs and before it starts.
// Calls that need a key report this, and succeed again without a restart.
func TestVaultKeyringUnavailable(t *testing.T) {
	t.Parallel()
	k := keyringtest.Start(t)
	d := prepare(t)
	text := string(must.Get(os.ReadFile(d.Config))(t))
	must.Write(t, d.Config, strings.Replace(text, `vault.backend = "file"`, `vault.backend = "secret_service"`, 1))
	d.Keeps("the vault's values", marked)
	d.Env = []string{"DBUS_SESSION_BUS_ADDRESS=" + k.Address}
	d.Start()
	must.Do(t, put(t.Context(), d.secretsOf(), "a", marked+" a"))
	for name, away := range map[string]struct{ go_, back func() }{
		"locked": {func() { k.Lock(t) }, func() { k.Unlock(t) }},
		"killed": {k.End, func() { k.Begin(t) }},
	} {
		away.go_()
		// A rekey uses the keyring at once; secrets stay readable while the key is in memory.
		_, err := d.secretsOf().RekeyVault(t.Context(), &palyrav1.RekeyVaultRequest{})
		if code, next := codeOf(err); code != "VAULT_LOCKED" || next == "" {
			t.Errorf("%s: a rekey: %v, next %q", name, err, next)
		}
		// A call whose result can be sealed also succeeds; any other call is refused without an
		// effect.
		r := d.dial().patch(t.Context(), "while-"+name)
		if got := codes([]reply{r}); len(got) > 0 && (got[0] != "VAULT_LOCKED" || d.Read("while-"+name) != "") {
			t.Errorf("%s: a call: %q", name, got)
		}
		if code, text := d.readyz(); code != http.StatusOK {
			t.Errorf("%s: readyz: %d %s", name, code, text)
		}
		d.Stop()
		d.Start()
		v := d.secretsOf()
		if _, err := reveal(t.Context(), v, "a"); err == nil {
			t.Errorf("%s: after another start a secret is read", name)
		} else if code, next := codeOf(err); code != "VAULT_LOCKED" || next == "" {
			t.Errorf("%s: after another start: %v, next %q", name, err, next)
		}
		away.back()
		must.Eventually(t, "the vault is open again", func() (bool, string) {
			value, err := reveal(t.Context(), v, "a")
			return err == nil && value == marked+" a", fmt.Sprint(err)
		})
		must.Do(t, put(t.Context(), v, "b-"+name, marked))
		c := d.dial()
		must.Eventually(t, "calls run again", func() (bool, string) { // a failure is cached for a second
			got := codes([]reply{c.patch(t.Context(), "after-"+name)})
			return len(got) == 0, fmt.Sprint(got)
		})
	}
	d.Stop()
}
