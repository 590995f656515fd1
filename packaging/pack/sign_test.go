package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// signed returns options of a folder with two signed artifacts.
func signed(t *testing.T) options {
	t.Helper()
	root := t.TempDir()
	o := options{root: root, stage: filepath.Join(root, "stage"), out: filepath.Join(root, "out"), tag: "v1.2.3", commit: strings.Repeat("a", 40), date: "2026-11-30T06:00:00Z", builder: "test", keys: keyOptions{folder: filepath.Join(root, "keys")}}
	for _, name := range []string{"go.sum", "packaging/go.sum", "packaging/linux/debian.lock", "scripts/node/package-lock.json", "web/package-lock.json"} {
		put(t, filepath.Join(root, name), name)
	}
	for _, p := range platforms {
		for _, name := range programs(p) {
			put(t, filepath.Join(o.stage, folder(p), name), folder(p)+name)
		}
	}
	put(t, filepath.Join(o.out, "palyra_1.2.3_amd64.deb"), "deb")
	put(t, filepath.Join(o.out, "install.sh"), "sh")
	for _, step := range []error{writeSums(o), makeKeys(t.Context(), o), sign(t.Context(), o)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	return o
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	o := signed(t)
	if err := verify(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(o.out, name) }
	for _, test := range []struct {
		name   string
		change func(t *testing.T)
		want   string
	}{
		{"a changed artifact", func(t *testing.T) { put(t, at("palyra_1.2.3_amd64.deb"), "dep") }, "palyra_1.2.3_amd64.deb has the digest"},
		{"an absent artifact", func(t *testing.T) { remove(t, at("install.sh")) }, "install.sh"},
		{"one more artifact", func(t *testing.T) { put(t, at("palyra_1.2.4_amd64.deb"), "deb") }, "palyra_1.2.4_amd64.deb is not in SHA256SUMS"},
		{"a changed list", func(t *testing.T) { change(t, at(sumsName)) }, "no valid signature"},
		{"a changed list of programs", func(t *testing.T) { change(t, at(programsName)) }, "no valid signature"},
		{"an absent signature", func(t *testing.T) { remove(t, at(sumsName+".sig")) }, "is not signed"},
		{"an empty signature", func(t *testing.T) { put(t, at(sumsName+".sig"), "") }, "no valid signature"},
		{"a signature of the other list", func(t *testing.T) { copyFile(t, at(programsName+".sig"), at(sumsName+".sig")) }, "no valid signature"},
		{"an absent minisign signature", func(t *testing.T) { remove(t, at(sumsName+".minisig")) }, "is not signed"},
		{"a changed minisign comment", func(t *testing.T) { replace(t, at(sumsName+".minisig"), "palyra 1.2.3", "palyra 1.2.4") }, "no valid signature"},
		{"absent provenance", func(t *testing.T) { remove(t, at("palyra_1.2.3.intoto.jsonl")) }, "0 files of provenance"},
		{"changed provenance", func(t *testing.T) { replacePayload(t, at("palyra_1.2.3.intoto.jsonl")) }, "no valid signature"},
		{"another key", func(t *testing.T) {
			other := options{keys: keyOptions{folder: filepath.Join(o.root, "other")}}
			if err := makeKeys(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			copyFile(t, filepath.Join(other.keys.folder, ecdsaPublic), filepath.Join(o.keys.folder, ecdsaPublic))
		}, "no valid signature"},
	} {
		t.Run(test.name, func(t *testing.T) {
			saved := t.TempDir()
			if err := os.CopyFS(saved, os.DirFS(o.root)); err != nil {
				t.Fatal(err)
			}
			test.change(t)
			err := verify(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
			if err := os.RemoveAll(o.root); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(o.root, os.DirFS(saved)); err != nil {
				t.Fatal(err)
			}
			if err := verify(t.Context(), o); err != nil {
				t.Fatalf("without the change: %v", err)
			}
		})
	}
}

// TestSignaturesAreReproducible: the same lists and keys give the same signatures.
func TestSignaturesAreReproducible(t *testing.T) {
	t.Parallel()
	o := signed(t)
	names, err := filepath.Glob(filepath.Join(o.out, "*"))
	if err != nil {
		t.Fatal(err)
	}
	before := make(map[string][]byte)
	for _, name := range names {
		before[name] = read(t, name)
	}
	if err := sign(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for name, data := range before {
		if !bytes.Equal(data, read(t, name)) {
			t.Errorf("%s differs", filepath.Base(name))
		}
	}
	if len(before) != 11 {
		t.Errorf("%d files, want 11: %v", len(before), names)
	}
}

// TestSignWithCommand: a command signs as the files do, and a command with another key is refused.
func TestSignWithCommand(t *testing.T) {
	t.Parallel()
	o := signed(t)
	files, err := o.keys.signer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := read(t, filepath.Join(o.out, sumsName))
	digest := sha256.Sum256(list)
	signature, err := files.ecdsa(digest[:])
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(o.root, "signer")
	put(t, script, fmt.Sprintf("#!/bin/sh\nread digits\n[ \"$1 $digits\" = 'ecdsa-p256 %x' ] || exit 3\necho %s\n", digest, base64.StdEncoding.EncodeToString(signature)))
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	o.keys.signWith = script
	s, err := o.keys.signer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.signECDSA(list); err != nil || !bytes.Equal(got, signature) {
		t.Errorf("the command's signature is %x, %v", got, err)
	}
	if _, err := s.signECDSA([]byte("another message")); err == nil {
		t.Error("a command that fails signs")
	}
	put(t, script, fmt.Sprintf("#!/bin/sh\necho %s\n", base64.StdEncoding.EncodeToString(signature)))
	if _, err := s.signECDSA([]byte("another message")); err == nil || !strings.Contains(err.Error(), "another key signed") {
		t.Errorf("a signature of something else is accepted: %v", err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	put(t, to, string(read(t, from)))
}

func replace(t *testing.T, name, old, text string) {
	t.Helper()
	data := string(read(t, name))
	if !strings.Contains(data, old) {
		t.Fatalf("%s has no %q", name, old)
	}
	put(t, name, strings.ReplaceAll(data, old, text))
}

// change changes one digit of a list.
func change(t *testing.T, name string) {
	t.Helper()
	data := read(t, name)
	data[0] ^= 1
	put(t, name, string(data))
}

// replacePayload names another commit in the provenance.
func replacePayload(t *testing.T, name string) {
	t.Helper()
	var e envelope
	if err := json.Unmarshal(read(t, name), &e); err != nil {
		t.Fatal(err)
	}
	e.Payload = bytes.ReplaceAll(e.Payload, []byte(strings.Repeat("a", 40)), []byte(strings.Repeat("b", 40)))
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	put(t, name, string(data))
}
