package spake2plus

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestRoundTrip runs the whole protocol, with Argon2id.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	salt := must.Get(NewSalt())(t)
	told := must.Get(Derive([]byte("12345678"), salt, pair))(t)
	held := record(t, must.Get(Derive([]byte("12345678"), salt, pair))(t))

	p := must.Get(NewProver(told, bound(t)))(t)
	v := must.Get(NewVerifier(held, bound(t), p.Share()))(t)
	confirmP, proversKey, err := p.Finish(v.Answer())
	must.Do(t, err)
	verifiersKey := must.Get(v.Finish(confirmP))(t)
	sameKey(t, proversKey, verifiersKey)

	p = must.Get(NewProver(told, bound(t)))(t)
	v = must.Get(NewVerifier(held, bound(t), p.Share()))(t)
	_, next, err := p.Finish(v.Answer())
	must.Do(t, err)
	if bytes.Equal(next.Bytes(), proversKey.Bytes()) {
		t.Error("two exchanges of one PIN gave the same key")
	}
}

// TestDeriveBinds: a change of any input of Derive changes the secret, so that a record for one
// purpose is useless for another.
func TestDeriveBinds(t *testing.T) {
	t.Parallel()
	salt := bytes.Repeat([]byte{7}, SaltSize)
	made := func(pin string, salt []byte, ids Identities) string {
		s := must.Get(Derive([]byte(pin), salt, ids))(t)
		return string(s.w0[:]) + string(s.w1[:])
	}
	first := made("12345678", salt, pair)
	if made("12345678", salt, pair) != first {
		t.Fatal("the same inputs gave another secret")
	}
	seen := map[string]string{first: "the first"}
	for name, got := range map[string]string{
		"PIN":        made("12345679", salt, pair),
		"salt":       made("12345678", bytes.Repeat([]byte{8}, SaltSize), pair),
		"prover":     made("12345678", salt, Identities{"device2", "gateway"}),
		"verifier":   made("12345678", salt, Identities{"device", "gateway2"}),
		"boundaries": made("12345678", salt, Identities{"deviceg", "ateway"}),
		"roles":      made("12345678", salt, Identities{"gateway", "device"}),
	} {
		if other, ok := seen[got]; ok {
			t.Errorf("another %s gives the secret of %s", name, other)
		}
		seen[got] = name
	}
}

func TestDeriveRefuses(t *testing.T) {
	t.Parallel()
	salt := make([]byte, SaltSize)
	for name, err := range map[string]error{
		"no PIN":          second(Derive(nil, salt, pair)),
		"a short salt":    second(Derive([]byte("1"), salt[1:], pair)),
		"a long salt":     second(Derive([]byte("1"), append(salt, 0), pair)),
		"no prover":       second(Derive([]byte("1"), salt, Identities{"", "gateway"})),
		"no verifier":     second(Derive([]byte("1"), salt, Identities{"device", ""})),
		"one for both":    second(Derive([]byte("1"), salt, Identities{"a", "a"})),
		"w0 of zero":      second(newSecret([2 * wideSize]byte{2*wideSize - 1: 1}, pair)),
		"w1 of zero":      second(newSecret([2 * wideSize]byte{0: 1}, pair)),
		"zero context, p": second(NewProver(cheap(t, "1"), Context{})),
		"zero context, v": second(NewVerifier(record(t, cheap(t, "1")), Context{}, nil)),
		"zero secret":     second(NewProver(&Secret{}, bound(t))),
		"zero record":     second(NewVerifier(&Record{}, bound(t), nil)),
		"no label":        second(Bind("", []byte("part"))),
		"no parts":        second(Bind("label")),
		"an empty part":   second(Bind("label", []byte("part"), nil)),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestContextsAreUnambiguous(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for i, c := range []Context{
		must.Get(Bind("label", []byte("ab"), []byte("c")))(t),
		must.Get(Bind("label", []byte("a"), []byte("bc")))(t),
		must.Get(Bind("label", []byte("abc")))(t),
		must.Get(Bind("labela", []byte("bc")))(t),
		must.Get(Bind("label", []byte("ab"), []byte("c"), []byte("\x00")))(t),
	} {
		if j, ok := seen[string(c.encoded)]; ok {
			t.Errorf("contexts %d and %d are the same", i, j)
		}
		seen[string(c.encoded)] = i
	}
}

// TestSingleUse: no side finishes twice, whether or not the first attempt succeeded.
func TestSingleUse(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	for _, wrong := range []bool{false, true} {
		t.Run(fmt.Sprintf("wrong=%v", wrong), func(t *testing.T) {
			p := must.Get(NewProver(secret, bound(t)))(t)
			v := must.Get(NewVerifier(record(t, secret), bound(t), p.Share()))(t)
			shareV, confirmV := v.Answer()
			sent := bytes.Clone(confirmV)
			if wrong {
				sent[0] ^= 1
			}
			confirmP, _, err := p.Finish(shareV, sent)
			if wrong != errors.Is(err, ErrConfirmation) {
				t.Fatalf("the first time gave %v", err)
			}
			if wrong {
				confirmP = make([]byte, 32)
			}
			if _, err := v.Finish(confirmP); wrong != errors.Is(err, ErrConfirmation) {
				t.Fatalf("the first time gave %v", err)
			}
			again, key, err := p.Finish(shareV, confirmV)
			if !errors.Is(err, ErrFinished) || again != nil || key != nil {
				t.Errorf("the prover was used a second time: %v", err)
			}
			for _, confirmation := range [][]byte{confirmP, make([]byte, 32)} {
				if key, err := v.Finish(confirmation); !errors.Is(err, ErrFinished) || key != nil {
					t.Errorf("the verifier was used a second time: %v", err)
				}
			}
		})
	}
	if _, err := new(Verifier).Finish(nil); !errors.Is(err, ErrConfirmation) {
		t.Errorf("a verifier that nobody made takes the empty confirmation: %v", err)
	}
}

// TestSidesKeepTheirMessages: changes of returned or passed byte slices do not affect a side.
func TestSidesKeepTheirMessages(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	p := must.Get(NewProver(secret, bound(t)))(t)
	shareP := p.Share()
	v := must.Get(NewVerifier(record(t, secret), bound(t), shareP))(t)
	clear(shareP)
	shareV, confirmV := v.Answer()
	clear(shareV)
	clear(confirmV)
	confirmP, key, err := p.Finish(v.Answer())
	must.Do(t, err)
	clear(key.Bytes())
	sameKey(t, key, must.Get(v.Finish(confirmP))(t))
}

// TestSecretsAreNotPrinted: no formatting verb prints a secret.
func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	secret := cheap(t, "12345678")
	held := record(t, secret)
	p := must.Get(NewProver(secret, bound(t)))(t)
	v := must.Get(NewVerifier(held, bound(t), p.Share()))(t)
	_, key, err := p.Finish(v.Answer())
	must.Do(t, err)
	for _, what := range []any{secret, *secret, held, *held, p, v, key, *key} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
			if got := fmt.Sprintf(verb, what); !strings.Contains(got, "hidden") || len(got) > 40 {
				t.Errorf("%T prints as %s", what, got)
			}
		}
	}
}
