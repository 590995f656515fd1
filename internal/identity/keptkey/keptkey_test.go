package keptkey_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity/keptkey"
)

func pair(t *testing.T) (public, private []byte) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t), must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
}

// A sealed key can be opened only with its passphrase, also from its file. A modified file, or
// one that belongs to another key, cannot be opened.
func TestSealed(t *testing.T) {
	t.Parallel()
	public, private := pair(t)
	kept := must.Get(keptkey.Seal("correct horse", public, private))(t)
	text := must.Get(kept.Text())(t)
	if bytes.Contains(text, private[len(private)-32:]) {
		t.Error("the file holds the key")
	}
	read := must.Get(keptkey.Read(text))(t)
	key := must.Get(read.Unseal("correct horse"))(t)
	if got := must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t); !bytes.Equal(got, public) {
		t.Error("it is another key")
	}
	if _, err := read.Unseal("correct horse "); reason.Of(err) != reason.NotConnected {
		t.Errorf("another passphrase: %v", err)
	}
	other, otherPrivate := pair(t)
	for name, change := range map[string]func(k *keptkey.Kept){
		"another public key": func(k *keptkey.Kept) { k.PublicKey = other },
		"a changed box":      func(k *keptkey.Kept) { k.Sealed.Box[3] ^= 1 },
		"fewer rounds":       func(k *keptkey.Kept) { k.Sealed.Time = 1 },
		"no memory":          func(k *keptkey.Kept) { k.Sealed.MemoryKiB = 0 },
		"all the memory":     func(k *keptkey.Kept) { k.Sealed.MemoryKiB = 1 << 30 },
		"no nonce":           func(k *keptkey.Kept) { k.Sealed.Nonce = nil },
		"not sealed":         func(k *keptkey.Kept) { k.Sealed = nil },
	} {
		k := must.Get(keptkey.Read(text))(t)
		change(k)
		if _, err := k.Unseal("correct horse"); err == nil {
			t.Errorf("%s: it was opened", name)
		}
	}
	if _, err := keptkey.ForKeyring("device key", public).Parse(otherPrivate); reason.Of(err) != reason.VerificationFailed {
		t.Errorf("another key came back from the keyring: %v", err)
	}
	must.Get(keptkey.ForKeyring("device key", public).Parse(private))(t) // control
	if _, err := keptkey.Seal("short", public, private); reason.Of(err) != reason.InvalidInput {
		t.Errorf("a short passphrase: %v", err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	public, private := pair(t)
	good := must.Get(must.Get(keptkey.Seal("correct horse", public, private))(t).Text())(t)
	for name, text := range map[string][]byte{
		"nothing": nil, "no JSON": []byte("x"), "no key": []byte(`{"place":"keyring","item":"x"}`),
		"an unknown place": bytes.Replace(good, []byte(`"passphrase"`), []byte(`"pocket"`), 1),
		"an unknown field": bytes.Replace(good, []byte(`"place"`), []byte(`"more":1,"place"`), 1),
		"another place":    bytes.Replace(good, []byte(`"passphrase"`), []byte(`"keyring"`), 1),
	} {
		if _, err := keptkey.Read(text); reason.Of(err) != reason.ConfigInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
