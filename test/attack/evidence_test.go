//go:build linux

package attack

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestSecretInEvidence: a program of the daemon uses a secret, receives it back from the server
// and prints the response. No file or output of the daemon contains the value. Control: the
// value is an argument of the call, where no placeholder replaces it.
func TestSecretInEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.newSite(t, "evidence")
	l := must.Get(s.listen())(t)
	s.serveTLS(l, false)
	at := l.Addr().String()

	g := newGateway(t, unattended)
	file := filepath.Join(t.TempDir(), "secret")
	root := filepath.Join(t.TempDir(), "root.pem")
	talker := filepath.Join(g.Workspace, "talker")
	must.Do(t, errors.Join(
		os.WriteFile(file, []byte(s.secret+"\n"), 0o600), os.WriteFile(talker, places.talker.content, 0o755),
		os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.authority.Cert.Raw}), 0o644),
	))
	g.write(g.Config, strings.Replace(read(t, g.Config), "[process_runner]", fmt.Sprintf("[process_runner]\nallowed_egress_hosts = [%q]", at), 1)+
		fmt.Sprintf("\n[[secrets]]\nname = \"token\"\nfile = %q\nhosts = [%q]\nheader = \"Authorization\"\nenv = \"TOKEN\"\n", file, at))
	g.mustStart("env", "SSL_CERT_FILE="+root)

	with := func(words []string, path, last string) []string {
		return append(words, "tcp "+at, "tls - http/1.1",
			fmt.Sprintf(`send GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`, path, at), last)
	}
	used := g.run(with([]string{"./talker", "talk"}, "/echo?as=body", "secret evidence")...)
	said := g.run(with([]string{"./talker", "say", "out-plain", "evidence"}, "/ok", "want fine")...)
	if !s.given.Load() {
		t.Errorf("the secret did not arrive where it belongs: %s%s%s%s", used.Out, used.Err, said.Out, said.Err)
	}
	if strings.Contains(used.Out, `"done":true`) || strings.Contains(used.Out, `\"done\":true`) {
		t.Errorf("the program got the value: %s", used.Out)
	}
	text, _ := g.attested()
	found := heldIn(t, g.Dir, s.secret)
	for what, shown := range map[string]string{"a result": used.Out + used.Err + said.Out + said.Err, "an attestation": text, "the log": g.Log().String()} {
		if holdsSecret([]byte(shown), s.secret) {
			found = append(found, what)
		}
	}
	told := g.run("./talker", "talk", "note "+s.secret)
	record(t, "SEC-01 journal, tape and attestation", len(found) > 0, len(heldIn(t, g.Dir, s.secret)) > 0, strings.Join(found, ", ")+told.Err)
}

// heldIn lists the files below a directory that contain a value.
func heldIn(t *testing.T, dir, value string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // files come and go while a daemon runs
		}
		text, err := os.ReadFile(name)
		if err == nil && holdsSecret(text, value) {
			found = append(found, name)
		}
		return nil
	})
	must.Do(t, err)
	return found
}
