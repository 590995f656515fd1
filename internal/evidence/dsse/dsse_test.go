package dsse

import (
	"bytes"
	"crypto/ed25519"
	"reflect"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"palyra/internal/core/must"
)

func TestCut(t *testing.T) {
	t.Parallel()
	const good = `{"payload":"e30=","payloadType":"text/x","signatures":[{"keyid":"SHA256:a","sig":"c2ln"}]}`
	for text, want := range map[string]bool{
		good: true,
		`{"payload":"","payloadType":"","signatures":[{"keyid":"","sig":""}]}`: true,
		good + " ": false,
		`{"payloadType":"text/x","payload":"e30=","signatures":[{"keyid":"a","sig":"b"}]}`:                false,
		`{"payload":"e30=","payloadType":"text\/x","signatures":[{"keyid":"a","sig":"b"}]}`:               false,
		`{"payload":"\u0065","payloadType":"x","signatures":[{"keyid":"a","sig":"b"}]}`:                   false,
		`{"payload":"e30=","payloadType":"x","signatures":[{"keyid":"a","sig":"b"},{"keyid":"a"}]}`:       false,
		`{"payload":"e30=","payloadType":"x","signatures":[{"keyid":"ä","sig":"b"}]}`:                     false,
		`{"payload":"e30=","payloadType":"x","signatures":[{"keyid":"a","sig":"b","cert":"c"}]}`:          false,
		"{\"payload\":\"e30=\",\"payloadType\":\"x\",\"signatures\":[{\"keyid\":\"a\n\",\"sig\":\"b\"}]}": false,
	} {
		if _, ok := cut(text); ok != want {
			t.Errorf("cut(%s) is %t, want %t", text, ok, want)
		}
	}
}

// The function cut returns the same parts as the JSON library. An envelope that the library
// refuses is refused together with its payload.
func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"payload":"e30=","payloadType":"text/x","signatures":[{"keyid":"SHA256:a","sig":"c2ln"}]}`))
	f.Add([]byte("{\"payload\":\"e\xff30=\",\"payloadType\":\"text/x\",\"signatures\":[{\"keyid\":\"SHA256:a\",\"sig\":\"c2ln\"}]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := cut(string(text))
		if !ok {
			return
		}
		var read envelope
		if err := jsonv2.Unmarshal(text, &read, jsonv2.RejectUnknownMembers(true)); err != nil {
			if _, bad := decode(got.Payload); bad == nil {
				t.Fatalf("%q is cut, the library says %v", text, err)
			}
			return
		}
		if !reflect.DeepEqual(got, read) {
			t.Fatalf("%q is cut to %+v, the library reads %+v", text, got, read)
		}
	})
}

// TestSigned: the text equals the canonical form of its parts, and the parsed envelope equals
// the signed one.
func TestSigned(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	for _, payload := range []string{"", "{}", "hello world", "\x00\xff\n"} {
		text := must.Get(Sign("text/x+json", []byte(payload), "SHA256:a/b+c", key))(t)
		var e envelope
		must.Do(t, jsonv2.Unmarshal(text, &e, jsonv2.RejectUnknownMembers(true)))
		canonical := jsontext.Value(must.Get(jsonv2.Marshal(e))(t))
		must.Do(t, canonical.Canonicalize())
		if !bytes.Equal(text, canonical) {
			t.Errorf("the envelope is %s, want %s", text, canonical)
		}
		opened := must.Get(Open(text, "text/x+json", len(text)))(t)
		if string(opened.Payload) != payload || opened.KeyID != "SHA256:a/b+c" {
			t.Errorf("read is %+v", opened)
		}
		must.Do(t, opened.Verify(key.Public().(ed25519.PublicKey)))
	}
	for _, bad := range []string{`a"b`, `a\b`, "a\nb", "ä", "\xff"} {
		if text, err := Sign("text/x", nil, bad, key); err == nil {
			t.Errorf("a key id %q makes %s", bad, text)
		}
		if text, err := Sign(bad, nil, "a", key); err == nil {
			t.Errorf("a type %q makes %s", bad, text)
		}
	}
}

func TestKeyID(t *testing.T) {
	t.Parallel()
	pub := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public()
	want := must.Get(dsse.SHA256KeyID(pub))(t)
	if got := KeyID(pub.(ed25519.PublicKey)); got != want {
		t.Errorf("the id is %q, want %q", got, want)
	}
}

func TestPreAuthentication(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "hello world", "\x00\xff\n"} {
		if got, want := preAuthentication("text/x", []byte(payload)), dsse.PAE("text/x", []byte(payload)); !bytes.Equal(got, want) {
			t.Errorf("the encoding is %q, want %q", got, want)
		}
	}
}
