package jailtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// watchScript creates instances of inotify until the kernel refuses one, and prints their number
// and the limit of watches. It then tries to raise the limit.
const watchScript = `import ctypes, errno
libc, n = ctypes.CDLL(None, use_errno=True), 0
while libc.inotify_init1(0) >= 0:
    n += 1
limits = "/proc/sys/user/max_inotify_"
print(n, errno.errorcode[ctypes.get_errno()], open(limits + "watches").read().strip())
try:
    open(limits + "instances", "w").write("1000000")
    print("raised")
except OSError as e:
    print("refused")
`

// WatchArgv are the arguments of a program that uses up the instances of inotify.
func WatchArgv() []string { return []string{"python3", "-c", watchScript} }

// CheckWatches compares the output of that program with a quarter of this process's limits.
func CheckWatches(t testing.TB, output string) {
	t.Helper()
	limit := func(name string) int {
		text := must.Get(os.ReadFile("/proc/sys/user/max_inotify_" + name))(t)
		return must.Get(strconv.Atoi(strings.TrimSpace(string(text))))(t) / 4
	}
	if want := fmt.Sprintf("%d EMFILE %d\nrefused\n", limit("instances"), limit("watches")); output != want {
		t.Errorf("the program printed %q, want %q", output, want)
	}
}
