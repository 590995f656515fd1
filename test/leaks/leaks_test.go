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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/identity/ca"
	"palyra/internal/vault/kek"
)

// leaked are ways in which a key can leak, each a function of a PKCS #8 key and its scalar.
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

// TestEveryFormIsFound is the control of the search: a key in any of these forms is found
// within a file, but not in its home.
func TestEveryFormIsFound(t *testing.T) {
	t.Parallel()
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

// TestKeysOfAnAuthorityAreCollected: all signing keys of palyrad and a token are gathered. A key in
// the home of another key is a leak.
func TestKeysOfAnAuthorityAreCollected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, _, err := ca.Open(filepath.Join(dir, "ca"), ca.Options{})
	must.Do(t, err)
	must.Get(a.Notary.Rotate())(t)
	_, _, err = a.Journal.Next()
	must.Do(t, err)
	bundle := filepath.Join(dir, "ci")
	must.Do(t, os.Mkdir(bundle, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(bundle, "token"), []byte("pal_"+strings.Repeat("0", 26)+"_"+strings.Repeat("7f3a", 16)+"\n"), 0o600))
	ring := must.Get(kek.Open(kek.Options{Dir: dir, Gateway: "palyra.test", Backend: kek.InFile}))(t)
	must.Get(ring.Rotate(t.Context()))(t)
	// The keys: root, issuing, notary, two of the journal, the token, two of the vault.
	if n, found, err := Look(dir, nil); err != nil || n != 8 || len(found) != 0 {
		t.Errorf("%d keys, %v, %v", n, found, err)
	}
	root := must.Get(os.ReadFile(filepath.Join(dir, "ca", "root.pem")))(t)
	must.Do(t, os.WriteFile(filepath.Join(bundle, "ca.pem"), root, 0o600))
	if _, found, err := Look(dir, nil); err != nil || len(found) == 0 {
		t.Errorf("the root's key in a bundle is not found: %v", err)
	}
}

// TestEveryKindIsFound is the control for secrets other than plain private keys: one of each kind
// in a log is found, and the gateway's own keys are not reported in their homes.
func TestEveryKindIsFound(t *testing.T) {
	t.Parallel()
	sealed := must.Get(hex.DecodeString(strings.Repeat("0102030405060708", 12)))(t)
	if _, err := rand.Read(sealed[40:]); err != nil {
		t.Fatal(err)
	}
	blob := string(pem.EncodeToMemory(&pem.Block{Type: "TPM KEY", Headers: map[string]string{"Parent": "00"}, Bytes: sealed}))
	box := make([]byte, 154)
	_, _ = rand.Read(box)
	kept := `{ "sealed": { "box": "` + base64.StdEncoding.EncodeToString(box) + `" } }`
	token := make([]byte, 16)
	_, _ = rand.Read(token)
	qr := base64.RawURLEncoding.EncodeToString(token)
	other := t.TempDir()
	foreign := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(foreign))(t)})
	must.Do(t, os.WriteFile(filepath.Join(other, "key.pem"), text, 0o600))
	for name, c := range map[string]struct {
		home, own string
		also      []Key
		told      []string
		not       string
	}{
		"sealed by a TPM":        {home: "notary.pem", own: blob, told: []string{blob, hex.EncodeToString(sealed)}, not: hex.EncodeToString(sealed[:40])},
		"under a passphrase":     {home: "key.kept", own: kept, told: []string{kept, fmt.Sprint(box)}},
		"a PIN":                  {also: Shown("a PIN", "30517264"), told: []string{"pin=30517264.", "3051 7264", `{"pin":"3051-7264"}`}, not: "0x30517264f 130517264"},
		"a QR token":             {also: Shown("a QR code", "palyra://pair?address=a%3A1&ca=b&code=c&token="+qr), told: []string{qr, "token=" + qr + "&", hex.EncodeToString(token), fmt.Sprint(token)}},
		"of another gateway":     {also: must.Get(Gather(other))(t), told: []string{string(text)}},
		"of another, in no home": {home: "ca.pem", also: must.Get(Gather(other))(t), told: []string{string(text)}},
	} {
		dir := t.TempDir()
		if c.home != "" {
			must.Do(t, os.WriteFile(filepath.Join(dir, c.home), []byte(c.own), 0o600))
		}
		log := filepath.Join(dir, "log")
		must.Do(t, os.WriteFile(log, []byte("level=INFO msg=ready "+c.not), 0o600))
		if n, found, err := Look(dir, nil, c.also...); err != nil || n == 0 || len(found) != 0 {
			t.Errorf("%s: before it is told: %d keys, %v, %v", name, n, found, err)
		}
		for _, told := range c.told {
			must.Do(t, os.WriteFile(log, []byte(strings.Repeat("x ", 1000)+told+" the end"), 0o600))
			if _, found, err := Look(dir, nil, c.also...); err != nil || len(found) == 0 || !strings.HasPrefix(found[0].Place, log) {
				t.Errorf("%s: %q is not found: %v, %v", name, told, found, err)
			}
		}
	}
}

// TestEveryFormOfAValueIsFound is the control for the values of the vault's secrets: a value in any
// of these encodings, within a longer text, is found.
func TestEveryFormOfAValueIsFound(t *testing.T) {
	t.Parallel()
	const value = `the-"Value"+of a/secret<0123456789>&c==`
	std, forURLs := base64.StdEncoding.EncodeToString, base64.URLEncoding.EncodeToString
	escaped := must.Get(json.Marshal(value))(t)
	upper := fmt.Sprintf("%X", value)
	var percent strings.Builder
	for i := 0; i < len(upper); i += 2 {
		percent.WriteString("%" + upper[i:i+2])
	}
	told := map[string]string{
		"plain": "x" + value + "y", "a part of it": value[:20], "hex": hex.EncodeToString([]byte(value)), "hex, capitals": upper,
		"percent": url.QueryEscape(value), "percent, lower": strings.NewReplacer("%2B", "%2b", "%2F", "%2f", "%3C", "%3c", "%3E", "%3e", "%3D", "%3d").Replace(url.QueryEscape(value)),
		"percent of a path": url.PathEscape(value), "percent, all": percent.String(), "percent, all, lower": strings.ToLower(percent.String()),
		"JSON": string(escaped), "quoted": fmt.Sprintf("%q", value), "JSON of bytes": string(must.Get(json.Marshal([]byte(value)))(t)), "%v": fmt.Sprint([]byte(value)),
	}
	for before := range 3 {
		whole := []byte(strings.Repeat("x", before) + value + " and more")
		told[fmt.Sprintf("base64, %d", before)], told[fmt.Sprintf("base64 for URLs, %d", before)] = std(whole), forURLs(whole)
		for further := range 3 {
			at, space := fmt.Sprintf(", %d and %d", before, further), strings.Repeat("y", further)
			told["base64 twice"+at], told["base64 for URLs twice"+at] = std([]byte(space+std(whole))), forURLs([]byte(space+forURLs(whole)))
		}
		lines := std(bytes.Repeat(whole, 3))
		told[fmt.Sprintf("base64 in lines, %d", before)] = lines[:30] + "\r\n" + lines[30:76] + "\n" + lines[76:]
	}
	for name, text := range told {
		dir := t.TempDir()
		log := filepath.Join(dir, "log")
		must.Do(t, os.WriteFile(log, []byte("level=INFO msg=the-other-value-of-a-secret"), 0o600))
		if n, found, err := Look(dir, nil, Kept("a secret", value)); err != nil || n != 1 || len(found) != 0 {
			t.Errorf("%s: before it is told: %d, %v, %v", name, n, found, err)
		}
		must.Do(t, os.WriteFile(log, []byte(strings.Repeat("x ", 1000)+text+" the end"), 0o600))
		if _, found, err := Look(dir, nil, Kept("a secret", value)); err != nil || len(found) == 0 {
			t.Errorf("%s: %q is not found, %v", name, text, err)
		}
	}
}
