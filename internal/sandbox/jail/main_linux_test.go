package jail

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/inside"
)

// helperProgram is palyra-init as built for this test run.
var helperProgram []byte

func TestMain(m *testing.M) {
	if err := buildHelper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func buildHelper() error {
	dir, err := os.MkdirTemp("", "palyra-init-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "palyra-init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "palyra/cmd/palyra-init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building palyra-init: %w\n%s", err, text)
	}
	helperProgram, err = os.ReadFile(out)
	return err
}

func newTestMachine(t testing.TB, c Config) *Machine {
	t.Helper()
	c.Helper = helperProgram
	m, err := NewMachine(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func identityOf(t testing.TB, name string) inside.Identity {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	return inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino}
}
