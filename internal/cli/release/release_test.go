package release

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// installation is a directory of programs and a directory with the signed list of their release.
type installation struct {
	t         *testing.T
	programs  string
	list      string
	signature string
	key       string
	signer    *ecdsa.PrivateKey
}

// installed returns an installation of palyra, palyrad and palyra-hook. The release also has a
// palyra-wasm, which is not installed.
func installed(t *testing.T) *installation {
	t.Helper()
	i := &installation{t: t, programs: t.TempDir(), signer: newKey(t, elliptic.P256())}
	lists := t.TempDir()
	i.list = filepath.Join(lists, "SHA256SUMS.programs")
	i.signature, i.key = i.list+Suffix, filepath.Join(lists, "palyra.pub")
	var lines strings.Builder
	for _, name := range []string{"palyra", "palyrad", "palyra-hook", "palyra-wasm"} {
		lines.WriteString(i.line(name, "program "+name))
		if name != "palyra-wasm" {
			i.write(i.program(name), "program "+name)
		}
	}
	lines.WriteString(strings.Repeat("0", 64) + "  plan9_amd64/palyra\n")
	i.write(i.key, publicPEM(t, i.signer.Public()))
	i.publish(lines.String())
	return i
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	return must.Get(ecdsa.GenerateKey(curve, rand.Reader))(t)
}

func publicPEM(t *testing.T, key crypto.PublicKey) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must.Get(x509.MarshalPKIXPublicKey(key))(t)}))
}

func (i *installation) program(name string) string {
	return filepath.Join(i.programs, executable(name))
}

func (i *installation) line(name, content string) string {
	return strings.TrimPrefix(digestOf([]byte(content)), "sha256:") + "  " + runtime.GOOS + "_" + runtime.GOARCH + "/" + executable(name) + "\n"
}

func (i *installation) write(file, text string) {
	i.t.Helper()
	must.Do(i.t, os.WriteFile(file, []byte(text), 0o644))
}

func (i *installation) read(file string) string {
	i.t.Helper()
	return string(must.Get(os.ReadFile(file))(i.t))
}

// publish writes and signs a list.
func (i *installation) publish(list string) {
	i.t.Helper()
	i.write(i.list, list)
	i.write(i.signature, i.sign(i.signer, list))
}

func (i *installation) sign(key *ecdsa.PrivateKey, text string) string {
	i.t.Helper()
	digest := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(must.Get(ecdsa.SignASN1(rand.Reader, key, digest[:]))(i.t))
}

func (i *installation) verify() (Report, error) {
	path := i.program("palyra")
	return Verify(i.signature, i.key, Running{Path: path, Image: path})
}

// link replaces a file by a symbolic link to it.
func (i *installation) link(file string) {
	i.t.Helper()
	must.Do(i.t, os.Rename(file, file+".target"))
	must.Do(i.t, os.Symlink(file+".target", file))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*installation){
		"as published":                   func(*installation) {},
		"signature ends with line feed":  func(i *installation) { i.write(i.signature, i.read(i.signature)+"\n") },
		"key ends with blank lines":      func(i *installation) { i.write(i.key, i.read(i.key)+"\n\n") },
		"symbolic links to the lists":    func(i *installation) { i.link(i.list); i.link(i.signature); i.link(i.key) },
		"symbolic links to the programs": func(i *installation) { i.link(i.program("palyra")); i.link(i.program("palyrad")) },
		"a companion is not installed":   func(i *installation) { must.Do(i.t, os.Remove(i.program("palyrad"))) },
	} {
		i := installed(t)
		prepare(i)
		report, err := i.verify()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if report.Digest != digestOf([]byte(i.read(i.list))) || report.Programs[0].Name != "palyra" {
			t.Errorf("%s: the report is %+v", name, report)
		}
		for _, p := range report.Programs {
			want := Verified
			if _, err := os.Stat(p.Path); err != nil {
				want = NotInstalled
			}
			if p.Result != want || p.Listed == "" {
				t.Errorf("%s: %s is %+v, want %s", name, p.Name, p, want)
			}
		}
		if len(report.Programs) != 4 {
			t.Errorf("%s: %d programs are reported", name, len(report.Programs))
		}
	}
}

func TestVerificationFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*installation)
		want    string
	}{
		"changed byte of the list":     {func(i *installation) { i.write(i.list, strings.Replace(i.read(i.list), "plan9", "plan8", 1)) }, "is not a signature of it by the key"},
		"signature by another key":     {func(i *installation) { i.write(i.signature, i.sign(newKey(i.t, elliptic.P256()), i.read(i.list))) }, "is not a signature of it by the key"},
		"signature of another list":    {func(i *installation) { i.write(i.signature, i.sign(i.signer, "other")) }, "is not a signature of it by the key"},
		"signature of nothing":         {func(i *installation) { i.write(i.signature, "AAAA") }, "is not a signature of it by the key"},
		"signature that is not base64": {func(i *installation) { i.write(i.signature, "-----BEGIN") }, "is not base64"},
		"signature with inner spaces":  {func(i *installation) { i.write(i.signature, "AA AA") }, "is not base64"},
		"companion of 4 TiB":           {func(i *installation) { must.Do(i.t, os.Truncate(i.program("palyrad"), 4<<40)) }, "could not be read"},
		"companion is a dangling link": {func(i *installation) {
			i.link(i.program("palyrad"))
			must.Do(i.t, os.Remove(i.program("palyrad")+".target"))
		}, "could not be read"},
		"missing signature":          {func(i *installation) { must.Do(i.t, os.Remove(i.signature)) }, "is not signed: "},
		"dangling link as signature": {func(i *installation) { i.link(i.signature); must.Do(i.t, os.Remove(i.signature+".target")) }, "is not signed: "},
		"empty signature":            {func(i *installation) { i.write(i.signature, "\n") }, "is empty"},
		"oversized signature":        {func(i *installation) { i.write(i.signature, strings.Repeat("A", maxSignature+1)) }, "larger than"},
		"directory as signature": {func(i *installation) {
			must.Do(i.t, os.Remove(i.signature))
			must.Do(i.t, os.Mkdir(i.signature, 0o755))
		}, "not a regular file"},
		"list without this program":  {func(i *installation) { i.publish(i.line("palyrad", "program palyrad")) }, "has no line for"},
		"list of another platform":   {func(i *installation) { i.publish(strings.Repeat("0", 64) + "  plan9_amd64/palyra\n") }, "has no line for"},
		"list without a companion":   {func(i *installation) { i.publish(i.line("palyra", "program palyra")) }, "has no line for"},
		"list of another release":    {func(i *installation) { i.publish(i.line("palyra", "another") + i.line("palyrad", "another")) }, "of the list"},
		"duplicate line":             {func(i *installation) { i.publish(i.read(i.list) + i.line("palyra", "program palyra")) }, "a second time"},
		"second digest of a program": {func(i *installation) { i.publish(i.read(i.list) + i.line("palyra", "other")) }, "a second time"},
		"two digests on a line":      {func(i *installation) { i.publish(strings.Repeat("0", 64) + "  " + i.line("palyra", "program palyra")) }, "line 1 is not"},
		"list of artifacts":          {func(i *installation) { i.publish(strings.Repeat("0", 64) + "  palyra_1.2.3_amd64.deb\n") }, "line 1 is not"},
		"carriage returns":           {func(i *installation) { i.publish(strings.ReplaceAll(i.read(i.list), "\n", "\r\n")) }, "line 1 is not"},
		"no line feed at the end":    {func(i *installation) { i.publish(strings.TrimSuffix(i.read(i.list), "\n")) }, "does not end with a line feed"},
		"empty list":                 {func(i *installation) { i.publish("") }, "the list is empty"},
		"program with other bytes":   {func(i *installation) { i.write(i.program("palyra"), "program palyra ") }, "is not the"},
		"companion with other bytes": {func(i *installation) { i.write(i.program("palyrad"), "malware") }, "palyrad"},
		"companion of another release": {func(i *installation) {
			i.publish(strings.Replace(i.read(i.list), i.line("palyrad", "program palyrad"), i.line("palyrad", "newer"), 1))
		}, "palyrad"},
		"link to a changed companion": {func(i *installation) {
			i.link(i.program("palyrad"))
			i.write(i.program("palyrad")+".target", "malware")
		}, "palyrad"},
		"directory as companion": {func(i *installation) {
			must.Do(i.t, os.Remove(i.program("palyrad")))
			must.Do(i.t, os.Mkdir(i.program("palyrad"), 0o755))
		}, "could not be read"},
		"program that cannot be opened": {func(i *installation) { must.Do(i.t, os.Remove(i.program("palyra"))) }, "could not be read"},
	} {
		i := installed(t)
		c.prepare(i)
		_, err := i.verify()
		if reason.Of(err) != reason.VerificationFailed || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.want)
			continue
		}
		if list := i.read(i.list); strings.Contains(c.want, "sign") && !strings.Contains(err.Error(), i.list+" ("+digestOf([]byte(list))+")") {
			t.Errorf("%s: the error does not name the list and its digest: %v", name, err)
		}
	}
}

// TestErrorNamesFileAndDigests: the error about a changed program has what a report of the
// incident needs.
func TestErrorNamesFileAndDigests(t *testing.T) {
	t.Parallel()
	i := installed(t)
	i.write(i.program("palyrad"), "malware")
	report, err := i.verify()
	if err == nil {
		t.Fatal("a changed companion is verified")
	}
	for _, part := range []string{i.program("palyrad"), digestOf([]byte("malware")), digestOf([]byte("program palyrad")), i.list} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not have %s: %v", part, err)
		}
	}
	if len(report.Programs) != 4 || report.Programs[0].Result != Verified || report.Programs[1].Result != Different {
		t.Errorf("the report is %+v", report.Programs)
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	private := func(i *installation) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(i.signer))(i.t)}))
	}
	for name, c := range map[string]struct {
		prepare func(*installation)
		want    string
	}{
		"RSA key": {func(i *installation) {
			i.write(i.key, publicPEM(i.t, must.Get(rsa.GenerateKey(rand.Reader, 2048))(i.t).Public()))
		}, "the key is RSA"},
		"P-384 key": {func(i *installation) { i.write(i.key, publicPEM(i.t, newKey(i.t, elliptic.P384()).Public())) }, "the key is ECDSA on P-384"},
		"Ed25519 key": {func(i *installation) {
			i.write(i.key, publicPEM(i.t, ed25519.NewKeyFromSeed(make([]byte, 32)).Public()))
		}, "the key is ed25519"},
		"private key": {func(i *installation) { i.write(i.key, private(i)) }, "private key"},
		"encrypted private key": {func(i *installation) {
			i.write(i.key, strings.ReplaceAll(private(i), "PRIVATE", "ENCRYPTED SIGSTORE PRIVATE"))
		}, "private key"},
		"certificate": {func(i *installation) { i.write(i.key, strings.ReplaceAll(i.read(i.key), "PUBLIC KEY", "CERTIFICATE")) }, "CERTIFICATE"},
		"two keys": {func(i *installation) {
			i.write(i.key, i.read(i.key)+publicPEM(i.t, newKey(i.t, elliptic.P256()).Public()))
		}, "more than the PEM block"},
		"text before the key":   {func(i *installation) { i.write(i.key, "key:\n"+i.read(i.key)) }, "more than the PEM block"},
		"malformed key":         {func(i *installation) { i.write(i.key, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n") }, "malformed"},
		"minisign key":          {func(i *installation) { i.write(i.key, "untrusted comment: minisign public key\nRWQ\n") }, "no PEM block"},
		"missing key":           {func(i *installation) { must.Do(i.t, os.Remove(i.key)) }, "reading the key"},
		"oversized key":         {func(i *installation) { i.write(i.key, strings.Repeat(" ", maxKey+1)) }, "larger than"},
		"missing list":          {func(i *installation) { must.Do(i.t, os.Remove(i.list)) }, "reading the list of programs"},
		"oversized list":        {func(i *installation) { i.write(i.list, strings.Repeat("\n", maxList+1)) }, "larger than"},
		"list as signature":     {func(i *installation) { i.signature = i.list }, "does not end with .sig"},
		"name that is a suffix": {func(i *installation) { i.signature = filepath.Join(filepath.Dir(i.list), Suffix) }, "does not end with .sig"},
	} {
		i := installed(t)
		c.prepare(i)
		_, err := i.verify()
		if reason.Of(err) != reason.InvalidInput || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.want)
		}
	}
}

func FuzzParseList(f *testing.F) {
	digest := strings.Repeat("0", 64)
	for _, seed := range []string{"", "\n", digest + "  linux_amd64/palyra\n", digest + "  a_b/c\n" + digest + "  a_b/c\n", digest + " *linux_amd64/palyra\n", digest + "  ../palyra\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		programs, err := parseList(text)
		if err != nil {
			return
		}
		var again strings.Builder
		for program, digest := range programs {
			again.WriteString(strings.TrimPrefix(digest, "sha256:") + "  " + program + "\n")
		}
		if len(programs) == 0 || len(programs) != bytes.Count(text, []byte("\n")) || again.Len() != len(text) {
			t.Errorf("%q has the programs %v", text, programs)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		f.Fatal(err)
	}
	good := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for _, seed := range [][]byte{good, append(good, good...), bytes.ReplaceAll(good, []byte("PUBLIC"), []byte("PRIVATE")), nil, []byte("-----BEGIN PUBLIC KEY-----\na: b\n\nAAAA\n-----END PUBLIC KEY-----\n")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := parseKey(text)
		if err != nil {
			return
		}
		if key.key.Curve != elliptic.P256() || bytes.Count(text, []byte("-----BEGIN")) != 1 {
			t.Errorf("%q is accepted as a key", text)
		}
	})
}
