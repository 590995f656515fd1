package things_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
	"palyra/internal/core/statedir/keyfile"
)

// desk returns a world with a built skill and a key.
func desk(t *testing.T) (w *clitest.World, dir, packed, key string) {
	t.Helper()
	w, dir = clitest.NewWorld(t), t.TempDir()
	packed, key = filepath.Join(dir, "counter.palyra-skill"), filepath.Join(dir, "key")
	w.Want(w.Run("skills", "new", filepath.Join(dir, "counter"), "--publisher", "example.org"), 0)
	w.Want(w.Run("skills", "keygen", key), 0)
	w.Want(w.Run("skills", "build", filepath.Join(dir, "counter"), "--key", key, "--out", packed), 0)
	return w, dir, packed, key
}

// TestFormats: each output format has the same values of a package.
func TestFormats(t *testing.T) {
	t.Parallel()
	w, dir, packed, key := desk(t)
	var made struct {
		ID, Version, Publisher, Digest, File string
		Signed                               bool
		KeyID                                string `json:"key_id"`
		Modules                              []struct {
			Name, Compiler string
			Sizes          []struct {
				Import string
				Bytes  int `json:"code_bytes"`
			}
		}
	}
	r := w.Run("skills", "build", filepath.Join(dir, "counter"), "--key", key, "--out", packed, "--sizes", "-o", "json")
	w.Want(r, 0)
	must.Do(t, json.Unmarshal([]byte(r.Out), &made))
	if made.ID != "counter" || made.Version != "0.1.0" || made.Publisher != "example.org" || !made.Signed || made.File != packed || len(made.Modules) != 1 || len(made.Modules[0].Sizes) == 0 || made.Modules[0].Sizes[0].Import == "" {
		t.Errorf("%+v", made)
	}
	for _, format := range []string{"json", "yaml", "table"} {
		r := w.Run("skills", "verify", packed, "--key-id", made.KeyID, "-o", format)
		w.Want(r, 0)
		if !strings.Contains(r.Out, made.Digest) || !strings.Contains(r.Out, made.KeyID) {
			t.Errorf("%s: %s", format, r.Out)
		}
	}
}

// TestTamperedFile: a changed byte of a module is reported.
func TestTamperedFile(t *testing.T) {
	t.Parallel()
	w, _, packed, _ := desk(t)
	w.Want(w.Run("skills", "audit", packed), 0)
	data := must.Get(os.ReadFile(packed))(t)
	data[len(data)/2]++
	must.Do(t, os.WriteFile(packed, data, 0o600))
	for _, command := range []string{"verify", "audit"} {
		if r := w.Run("skills", command, packed); r.Code != 2 || !strings.Contains(r.Err, `"modules/count.wasm" was changed`) {
			t.Errorf("%s: %d %s", command, r.Code, r.Err)
		}
	}
}

// TestAuditFails: every finding is printed, and the command exits with 8.
func TestAuditFails(t *testing.T) {
	t.Parallel()
	w, dir, packed, key := desk(t)
	manifest := filepath.Join(dir, "counter", "skill.toml")
	text := string(must.Get(os.ReadFile(manifest))(t)) + "\n[tools.capabilities]\nhttp = [\"*.example.org\"]\n[compatibility]\ninterface = \"0.1.0\"\n"
	must.Do(t, os.WriteFile(manifest, []byte(text), 0o600))
	w.Want(w.Run("skills", "build", filepath.Join(dir, "counter"), "--key", key, "--out", packed), 0)
	r := w.Run("skills", "audit", packed)
	if r.Code != 8 || !strings.Contains(r.Out, "count: error: it requests more than single hosts: *.example.org [SKILL_WILDCARD]") || !strings.Contains(r.Err, "1 error, 1 warning") {
		t.Errorf("%d %s%s", r.Code, r.Out, r.Err)
	}
	w.Want(w.Run("skills", "audit", packed, "--allow-wildcards"), 0)
}

// TestKeys: a key file is private, is not overwritten, and an invalid one is refused.
func TestKeys(t *testing.T) {
	t.Parallel()
	w, dir, packed, key := desk(t)
	if info := must.Get(os.Stat(key))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v", info.Mode())
	}
	before := must.Get(os.ReadFile(key))(t)
	if r := w.Run("skills", "keygen", key); r.Code != 7 || string(must.Get(os.ReadFile(key))(t)) != string(before) {
		t.Errorf("a key was written over: %d %s", r.Code, r.Err)
	}
	another := filepath.Join(dir, "another")
	must.Do(t, keyfile.Write(another, must.Get(keyfile.KeyText(must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)))(t)))
	open := filepath.Join(dir, "open")
	must.Do(t, os.WriteFile(open, before, 0o600))
	must.Do(t, os.Chmod(open, 0o644))
	text := filepath.Join(dir, "text")
	must.Do(t, os.WriteFile(text, []byte("hello"), 0o600))
	for file, wants := range map[string]string{another: "not an Ed25519 key", open: "open", text: "does not contain a private key", filepath.Join(dir, "nowhere"): "nowhere"} {
		if r := w.Run("skills", "sign", packed, "--key", file); r.Code == 0 || !strings.Contains(r.Err, wants) {
			t.Errorf("%s: %d %s", file, r.Code, r.Err)
		}
	}
	w.Want(w.Run("skills", "sign", packed, "--key", key), 0)
}
