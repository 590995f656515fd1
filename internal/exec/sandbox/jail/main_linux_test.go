package jail

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// helperProgram is palyra-init, built for this test run.
var helperProgram []byte

func TestMain(m *testing.M) { os.Exit(jailtest.Main(m, &helperProgram)) }

func newTestMachine(t testing.TB, c Config) *Machine {
	t.Helper()
	c.Helper = helperProgram
	m := must.Get(NewMachine(c))(t)
	t.Cleanup(func() { must.Check(t, m.Close()) })
	return m
}

func identityOf(t testing.TB, name string) inside.Identity {
	t.Helper()
	var st unix.Stat_t
	must.Do(t, unix.Stat(name, &st))
	return inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino}
}

// stateOf returns the identity of a file and of its state.
func stateOf(t testing.TB, name string) inside.Identity {
	t.Helper()
	var st unix.Stat_t
	must.Do(t, unix.Stat(name, &st))
	return inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
}
