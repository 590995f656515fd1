package origin

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

func TestOrphaned(t *testing.T) {
	t.Parallel()
	me := strconv.Itoa(os.Getpid())
	for mark, want := range map[string]bool{
		Mark():      false,
		me + "-1":   true, // the pid was used before
		"4194305-1": true, // beyond the largest pid
		me:          false, "": false, "-1": false, "x-1": false, "0-1": false, "-5-1": false, "+5-1": false,
		me + "-": false, me + "-x": false, me + "-1-1": false,
	} {
		if got := Orphaned(mark); got != want {
			t.Errorf("Orphaned(%q) = %t", mark, got)
		}
	}
}

// A daemon without free file descriptors does not consider other daemons dead.
//
// Not parallel: it lowers the limit of open files of the process.
func TestOrphanedUnseen(t *testing.T) {
	var old unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	mark := Mark()
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}))
	orphaned := Orphaned(mark)
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	if orphaned || Orphaned(mark) {
		t.Errorf("this process is taken for dead: %t without descriptors, %t with them", orphaned, Orphaned(mark))
	}
}

func TestStartField(t *testing.T) {
	t.Parallel()
	const rest = " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1000 2"
	for stat, want := range map[string]string{
		"12 (sh)" + rest:        "777",
		"12 (a) (b 1 2)" + rest: "777", // a name may look like more fields
		"12 (sh) S 1":           "",
		"":                      "",
	} {
		if got := startField(stat); got != want {
			t.Errorf("startField(%q) = %q", stat, got)
		}
	}
}
