package leaks

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/identity/ca"
	"palyra/internal/must"
)

// leaked are ways in which keys get told, each of a PKCS #8 key and its scalar.
var leaked = map[string]func(der, scalar []byte) string{
	"raw":            func(_, scalar []byte) string { return string(scalar) },
	"half of it":     func(_, scalar []byte) string { return string(scalar[:16]) },
	"the other half": func(_, scalar []byte) string { return string(scalar[16:]) },
	"DER":            func(der, _ []byte) string { return string(der) },
	"hex":            func(_, scalar []byte) string { return hex.EncodeToString(scalar) },
	"hex of DER":     func(der, _ []byte) string { return hex.EncodeToString(der) },
	"capitals":       func(_, scalar []byte) string { return fmt.Sprintf("%X", scalar) },
	"hex with colons": func(_, scalar []byte) string {
		return strings.TrimSuffix(strings.ReplaceAll(fmt.Sprintf("% x", scalar), " ", ":"), ":")
	},
	"base64":           func(_, scalar []byte) string { return base64.StdEncoding.EncodeToString(scalar) },
	"base64 of DER":    func(der, _ []byte) string { return base64.StdEncoding.EncodeToString(der) },
	"base64, shifted":  func(der, _ []byte) string { return base64.StdEncoding.EncodeToString(append([]byte("x"), der...)) },
	"base64, shifted2": func(der, _ []byte) string { return base64.RawURLEncoding.EncodeToString(append([]byte("xx"), der...)) },
	"PEM":              func(der, _ []byte) string { return string(pem.EncodeToMemory(&pem.Block{Type: "X", Bytes: der})) },
	"PEM in JSON": func(der, _ []byte) string {
		text, _ := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "X", Bytes: append([]byte("12345678901234567"), der...)})))
		return string(text)
	},
	"JSON of bytes": func(der, _ []byte) string { text, _ := json.Marshal(der); return string(text) },
	"%v":            func(_, scalar []byte) string { return fmt.Sprint(scalar) },
	"%#v":           func(_, scalar []byte) string { return fmt.Sprintf("%#v", scalar) },
	"a list":        func(_, scalar []byte) string { return strings.ReplaceAll(fmt.Sprint(scalar), " ", ", ") },
}

// TestEveryFormIsFound is the control of all that looks for keys: one that is told in
// any of these ways, in the middle of a file, is found, and is not found in its home.
func TestEveryFormIsFound(t *testing.T) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der, secret := must.Get(x509.MarshalPKCS8PrivateKey(key))(t), must.Get(key.Bytes())(t)
	forms := map[string]func(der, scalar []byte) string{"a big.Int": func(_, _ []byte) string { return fmt.Sprintf("%+v", key) }}
	for name, tell := range leaked {
		forms[name] = tell
	}
	for name, tell := range forms {
		dir := t.TempDir()
		home := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
		must.Do(t, os.WriteFile(filepath.Join(dir, "key.pem"), home, 0o600))
		log := filepath.Join(dir, "log")
		must.Do(t, os.WriteFile(log, bytes.Repeat([]byte("level=INFO msg=ready "), 1000), 0o600))
		if n, found, err := Look(dir, nil); err != nil || n != 1 || len(found) != 0 {
			t.Fatalf("%d keys, %v, %v", n, found, err)
		}
		text := tell(der, secret)
		must.Do(t, os.WriteFile(log, []byte(strings.Repeat("x ", 1000)+text+" the end"), 0o600))
		if _, found, err := Look(dir, nil); err != nil || len(found) == 0 || !strings.HasPrefix(found[0].Place, log) {
			t.Errorf("%s is not found: %v, %v\n%q", name, found, err, text)
		}
		if _, found, _ := Look(t.TempDir(), map[string]string{"stderr": text}); len(found) != 0 {
			t.Errorf("%s: a key that nobody made is found: %v", name, found)
		}
		must.Do(t, os.Remove(log))
		if _, found, _ := Look(dir, map[string]string{"stderr": text}); len(found) == 0 {
			t.Errorf("%s is not found in what a program says", name)
		}
	}
}

// TestKeysOfAnAuthorityAreGathered: all that palyrad signs with, and a token. One key
// in the home of another is a leak.
func TestKeysOfAnAuthorityAreGathered(t *testing.T) {
	dir := t.TempDir()
	a, _, err := ca.Open(filepath.Join(dir, "ca"), ca.Options{})
	must.Do(t, err)
	must.Get(a.RotateNotary())(t)
	_, _, err = a.NextJournalKey()
	must.Do(t, err)
	bundle := filepath.Join(dir, "ci")
	must.Do(t, os.Mkdir(bundle, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(bundle, "token"), []byte("pal_"+strings.Repeat("0", 26)+"_"+strings.Repeat("7f3a", 16)+"\n"), 0o600))
	// Root, issuing, notary, two of the journal, the token.
	if n, found, err := Look(dir, nil); err != nil || n != 6 || len(found) != 0 {
		t.Errorf("%d keys, %v, %v", n, found, err)
	}
	root := must.Get(os.ReadFile(filepath.Join(dir, "ca", "root.pem")))(t)
	must.Do(t, os.WriteFile(filepath.Join(bundle, "ca.pem"), root, 0o600))
	if _, found, err := Look(dir, nil); err != nil || len(found) == 0 {
		t.Errorf("the root's key in a bundle is not found: %v", err)
	}
}
