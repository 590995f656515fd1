package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestMaintainerScripts: the scripts have no placeholder left, and a POSIX shell parses them. The
// controls are a source directory without migrations and a user file without a user.
func TestMaintainerScripts(t *testing.T) {
	o := options{root: "../.."}
	scripts, err := maintainerScripts(o, release{version: "1.2.3"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{scripts.PreInstall, scripts.PostInstall, scripts.PreRemove, scripts.PostRemove} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if left := regexp.MustCompile(`@[A-Z]+@`).Find(text); left != nil {
			t.Errorf("%s contains %s", filepath.Base(name), left)
		}
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", filepath.Base(name), err, out)
		}
	}
	if _, err := storeSchema(t.TempDir()); err == nil {
		t.Error("a checkout without migrations has a schema")
	}
	empty := filepath.Join(t.TempDir(), "sysusers")
	if err := os.WriteFile(empty, []byte("# u palyra\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := userLine(empty); err == nil {
		t.Error("a file without a user has a line that creates one")
	}
}
