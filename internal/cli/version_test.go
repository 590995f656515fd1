package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestVersionVerify verifies the program that runs the test against a list that has its digest.
func TestVersionVerify(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	public := w.Write("palyra.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t)})))
	program := sha256.Sum256(must.Get(os.ReadFile(must.Get(os.Executable())(t)))(t))
	name := runtime.GOOS + "_" + runtime.GOARCH + "/palyra"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	publish := func(digest string) string {
		list := digest + "  " + name + "\n"
		sum := sha256.Sum256([]byte(list))
		signature := base64.StdEncoding.EncodeToString(must.Get(ecdsa.SignASN1(rand.Reader, key, sum[:]))(t))
		return w.Write(filepath.Base(w.Write("SHA256SUMS.programs", list))+".sig", signature)
	}
	signature := publish(hex.EncodeToString(program[:]))

	good := w.Run("version", "--verify", signature, "--key", public)
	w.Want(good, 0)
	if !strings.Contains(good.Out, "yes, release") || !strings.Contains(good.Out, hex.EncodeToString(program[:])) {
		t.Errorf("the report is %s", good.Out)
	}
	var document struct {
		Kind     string
		Verified bool
		Programs []struct{ Name, Result, SHA256 string }
	}
	must.Do(t, json.Unmarshal([]byte(w.Run("version", "--verify", signature, "--key", public, "-o", "json").Out), &document))
	if document.Kind != "VersionVerification" || !document.Verified || len(document.Programs) != 1 || document.Programs[0].Result != "verified" {
		t.Errorf("the document is %+v", document)
	}
	w.Want(w.Run("version", "--verify", signature, "--key", public, "-o", "yaml"), 0)

	signature = publish(strings.Repeat("0", 64))
	bad := w.Run("version", "--verify", signature, "--key", public)
	w.Want(bad, reason.ExitVerification)
	if !strings.Contains(bad.Out, "different") || !strings.Contains(bad.Err, "next:") {
		t.Errorf("a changed program is reported as %s%s", bad.Out, bad.Err)
	}
	w.Want(w.Run("version", "--verify", signature), reason.ExitUsage)
	w.Want(w.Run("version", "--key", public), reason.ExitUsage)
	w.Want(w.Run("version", "--verify", signature, "--key", signature), reason.ExitUsage)
}
