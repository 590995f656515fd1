//go:build linux

package checks

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// verifiers are programs of other people that check a signed list: each with its command in a
// folder of artifacts.
func verifiers(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{
		"openssl":  {"sh", "-euc", `openssl base64 -d -A -in "$1.sig" -out "$1.der"; openssl dgst -sha256 -verify palyra.pub -signature "$1.der" "$1"`, "sh"},
		"minisign": {"sh", "-euc", `minisign -V -p minisign.pub -m "$1"`, "sh"},
		"cosign":   {"sh", "-euc", sourceDir + `/.tools/cosign verify-blob --key palyra.pub --insecure-ignore-tlog=true --signature "$1.sig" "$1"`, "sh"},
	}
}

// copyOf returns a folder with links to all artifacts. A case replaces the artifact that it changes.
func copyOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "cp", "-as", packageDir+"/.", dir).succeeds(t)
	return dir
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	for program, command := range verifiers(t) {
		check(t, "signatures: "+program+" accepts the lists, and refuses changes and another key", func(t *testing.T) {
			if program == "cosign" {
				if _, err := os.Stat(filepath.Join(sourceDir, ".tools/cosign")); err != nil {
					notRun(t, "cosign is not built; run scripts/cosign.sh")
				}
			}
			for _, list := range []string{"SHA256SUMS", "SHA256SUMS.programs"} {
				dir := copyOf(t)
				verify := func() result {
					return run(t, append([]string{"env", "-C", dir, "HOME=" + dir}, append(command, list)...)...)
				}
				verify().succeeds(t)
				own := func(name string) string {
					replace(t, filepath.Join(dir, name))
					return filepath.Join(dir, name)
				}
				changeByte(t, own(list))
				verify().refuses(t)
				run(t, "cp", filepath.Join(packageDir, list), own(list)).succeeds(t)
				verify().succeeds(t)
				if program == "minisign" {
					run(t, "minisign", "-G", "-W", "-f", "-p", own("minisign.pub"), "-s", filepath.Join(dir, "other.key")).succeeds(t)
				} else {
					run(t, "sh", "-euc", `openssl ecparam -name prime256v1 -genkey -noout | openssl ec -pubout -out "$1"`, "sh", own("palyra.pub")).succeeds(t)
				}
				verify().refuses(t)
			}
		})
	}
}

// replace replaces a link by a copy of its file.
func replace(t *testing.T, name string) {
	t.Helper()
	data := must(os.ReadFile(name))(t)
	do(t, os.Remove(name))
	do(t, os.WriteFile(name, data, 0o644))
}

func TestDigests(t *testing.T) {
	t.Parallel()
	check(t, "digests: a changed byte in each artifact is refused with its name", func(t *testing.T) {
		sums := must(os.ReadFile(filepath.Join(packageDir, "SHA256SUMS")))(t)
		run(t, "env", "-C", packageDir, "sha256sum", "--check", "--strict", "SHA256SUMS").succeeds(t)
		listed := make(map[string]bool)
		for line := range strings.Lines(string(sums)) {
			digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			listed[name] = true
			dir := t.TempDir()
			run(t, "cp", filepath.Join(packageDir, name), dir).succeeds(t)
			changeByte(t, filepath.Join(dir, name))
			writeFile(t, filepath.Join(dir, "list"), digest+"  "+name+"\n", 0o644)
			run(t, "env", "-C", dir, "sha256sum", "--check", "list").refuses(t, name+": FAILED")
			do(t, os.Remove(filepath.Join(dir, name)))
		}
		for _, entry := range must(os.ReadDir(packageDir))(t) {
			name := entry.Name()
			signed := strings.HasPrefix(name, "SHA256SUMS") || strings.HasSuffix(name, ".intoto.jsonl")
			if !listed[name] && !signed && !strings.HasSuffix(name, ".pub") {
				t.Errorf("SHA256SUMS does not list %s", name)
			}
		}
	})
	check(t, "provenance: signed by the key for the artifacts in the list; a changed one is refused", func(t *testing.T) {
		text := must(os.ReadFile(artifact(t, packageDir, "palyra_*.intoto.jsonl")))(t)
		sums := string(must(os.ReadFile(filepath.Join(packageDir, "SHA256SUMS")))(t))
		var e envelope
		do(t, json.Unmarshal(text, &e))
		var statement struct {
			Subject []struct {
				Name   string
				Digest map[string]string
			}
		}
		do(t, json.Unmarshal(e.Payload, &statement))
		for _, s := range statement.Subject {
			if line := s.Digest["sha256"] + "  " + s.Name + "\n"; !strings.HasPrefix(s.Name, "SHA256SUMS") && !strings.Contains(sums, line) {
				t.Errorf("the list lacks the subject %s", line)
			}
		}
		if !e.verifies(t) || len(statement.Subject) == 0 {
			t.Fatalf("the provenance of %d subjects is not signed by the key", len(statement.Subject))
		}
		e.Payload[len(e.Payload)/2] ^= 1
		if e.verifies(t) {
			t.Fatal("a changed provenance verifies")
		}
	})
	check(t, "digests: the list of programs has those of the deb", func(t *testing.T) {
		list := string(must(os.ReadFile(filepath.Join(packageDir, "SHA256SUMS.programs")))(t))
		dir := t.TempDir()
		run(t, "dpkg-deb", "-x", deb(t, packageDir), dir).succeeds(t)
		for _, name := range []string{"palyra", "palyrad", "palyra-hook", "palyra-wasm"} {
			sum := strings.Fields(run(t, "sha256sum", filepath.Join(dir, "usr/bin", name)).succeeds(t).out)[0]
			if !strings.Contains(list, sum+"  linux_"+runtime.GOARCH+"/"+name+"\n") {
				t.Errorf("%s has the digest %s, which the list does not have", name, sum)
			}
		}
	})
	check(t, "palyra version --verify: accepts the installed programs, refuses a changed one", func(t *testing.T) {
		m := newMachine(t, baseRoot)
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		if !strings.Contains(m.run("palyra", "version", "--help").out, "--verify") {
			notRun(t, "palyra version has no flag --verify")
		}
		for _, name := range []string{"SHA256SUMS.programs", "SHA256SUMS.programs.sig", "palyra.pub"} {
			m.lend(filepath.Join(packageDir, name))
		}
		verify := []string{"palyra", "version", "--verify", "/tmp/SHA256SUMS.programs.sig", "--key", "/tmp/palyra.pub"}
		m.run(verify...).succeeds(t)
		replace(t, m.path("/usr/bin/palyra-hook"))
		changeByte(t, m.path("/usr/bin/palyra-hook"))
		m.run(verify...).refuses(t, "palyra-hook")
		m.dpkg("-i", deb(t, packageDir)).succeeds(t)
		m.run(verify...).succeeds(t)
		changeByte(t, m.path("/tmp/SHA256SUMS.programs"))
		m.run(verify...).refuses(t, "SHA256SUMS.programs")
		do(t, os.Remove(m.path("/tmp/SHA256SUMS.programs.sig")))
		m.run(verify...).refuses(t, "SHA256SUMS.programs.sig")
	})
}

// envelope is a DSSE envelope.
type envelope struct {
	PayloadType string
	Payload     []byte
	Signatures  []struct{ Sig []byte }
}

// verifies reports whether the public key of the packages made each signature.
func (e envelope) verifies(t *testing.T) bool {
	t.Helper()
	block, _ := pem.Decode(must(os.ReadFile(filepath.Join(packageDir, "palyra.pub")))(t))
	key := must(x509.ParsePKIXPublicKey(block.Bytes))(t).(*ecdsa.PublicKey)
	digest := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload))
	for _, s := range e.Signatures {
		if !ecdsa.VerifyASN1(key, digest[:], s.Sig) {
			return false
		}
	}
	return len(e.Signatures) > 0
}

func TestForeignWorker(t *testing.T) {
	t.Parallel()
	check(t, "arm64: palyra-wasm starts under qemu", func(t *testing.T) {
		dir := t.TempDir()
		run(t, "dpkg-deb", "-x", artifact(t, packageDir, "palyra_*_arm64.deb"), dir).succeeds(t)
		for _, name := range []string{"palyra", "palyrad"} {
			run(t, "qemu-aarch64-static", filepath.Join(dir, "usr/bin", name), "version").succeeds(t).prints(t, "linux/arm64")
		}
		worker := run(t, "qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu", filepath.Join(dir, "usr/bin/palyra-wasm"), "--help")
		t.Logf("palyra-wasm: exit code %d: %s", worker.code, worker.out)
		worker.prints(t, "palyra-wasm")
	})
}
