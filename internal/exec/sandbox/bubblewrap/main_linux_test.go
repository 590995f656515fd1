package bubblewrap

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

const (
	// waitForEnd, if set, makes this binary wait for the end of its input.
	waitForEnd = "TEST_PALYRA_WAIT"
	// secondHalf, if set, makes this binary start itself as a second half. Its value is the
	// command line for that, one argument per line.
	secondHalf = "TEST_PALYRA_SECOND_HALF"
)

// helperProgram is palyra-init, built for this test run.
var helperProgram []byte

func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "probe") {
		os.Exit(probe(os.Args[1:]))
	}
	if os.Getenv(waitForEnd) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	if os.Getenv(secondHalf) != "" {
		os.Exit(firstHalfMain())
	}
	if os.Getenv(childSpec) != "" {
		os.Exit(childMain())
	}
	if os.Getenv(shortSpec) != "" {
		os.Exit(shortMain())
	}
	if os.Getenv(jailtest.FlightSpec) != "" {
		os.Exit(jailtest.FlightMain(func(helper []byte) (jailtest.ClosingRunner, error) {
			return newRunner(Config{Enabled: true, Prepared: 1}, helper)
		}))
	}
	if os.Getenv(smallDisk) != "" {
		os.Exit(smallDiskMain())
	}
	if os.Getenv(bombsMark) != "" {
		os.Exit(bombsMain())
	}
	os.Exit(jailtest.Main(m, &helperProgram))
}

// newTestRunner fails with the packages to install if no sandbox can be built. A skipped test
// must not look like a passed one.
func newTestRunner(t testing.TB, without ...string) *Runner {
	t.Helper()
	c := testConfig(t.TempDir())
	c.Without = without
	return newConfiguredRunner(t, c)
}

func newConfiguredRunner(t testing.TB, c Config) *Runner {
	t.Helper()
	needs.Sandbox(t)
	r := must.Get(newRunner(c, helperProgram))(t)
	if problem := r.obstacle(); problem != nil {
		t.Fatalf("%s: %s", problem.Message, problem.NextStep())
	}
	t.Cleanup(func() { must.Check(t, r.Close()) })
	return r
}

// firstUser is the first user of sandboxes in tests that run as root.
const firstUser = 1_900_000_000

// testConfig returns a configuration that stores the remains of runs in dir.
func testConfig(dir string) Config {
	return Config{Enabled: true, FirstUser: firstUser, LayerDir: privateDir(dir, "layers"), QuarantineDir: privateDir(dir, "quarantine")}
}

func privateDir(dir, name string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		panic(err)
	}
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	return dir
}

var copyProbe = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("/proc/self/exe") })

// withProbe copies this test binary into the workspace as ./probe.
func withProbe(t testing.TB, root string, args ...string) sandbox.Spec {
	t.Helper()
	program := must.Get(copyProbe())(t)
	must.Do(t, os.WriteFile(filepath.Join(root, "probe"), program, 0o755))
	return jailtest.Spec(t, root, append([]string{"./probe"}, args...)...)
}

func contextWith(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
