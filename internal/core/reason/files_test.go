package reason_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/reason"
)

// TestOutOfFiles: an error caused by the limit of open files has the next step for that limit,
// whatever reason and next step wrap it. Other errors keep theirs.
func TestOutOfFiles(t *testing.T) {
	t.Parallel()
	opening := func(errno syscall.Errno) error {
		return fmt.Errorf("opening it: %w", &fs.PathError{Op: "open", Path: "/some/place", Err: errno})
	}
	for _, c := range []struct {
		name string
		err  *reason.Error
		want string
	}{
		{"a reason", reason.Errorf(reason.JournalUnavailable, "opening journal: %w", opening(syscall.EMFILE)), "LimitNOFILE"},
		{"one with a remedy", reason.Errorf(reason.JournalUnavailable, "opening: %w", opening(syscall.EMFILE)).WithRemedy("Check the disk.").WithField("a", "b"), "LimitNOFILE"},
		{"one within another", reason.Errorf(reason.SpawnFailed, "starting: %w", reason.Errorf(reason.Internal, "x: %w", opening(syscall.EMFILE))), "LimitNOFILE"},
		{"a fault", reason.Fault(opening(syscall.EMFILE)), "LimitNOFILE"},
		{"a fault of a fault", reason.Fault(reason.Fault(opening(syscall.EMFILE))), "LimitNOFILE"},
		{"of the machine", reason.Fault(opening(syscall.ENFILE)), "file-max"},
		{"a hidden cause", reason.Errorf(reason.SpawnFailed, "it cannot be read").WithCause(opening(syscall.EMFILE)), "LimitNOFILE"},
		{"another error", reason.Errorf(reason.JournalUnavailable, "opening: %w", opening(syscall.EIO)).WithRemedy("Check the disk."), "Check the disk."},
		{"another fault", reason.Fault(errors.New("secret")), reason.Lookup(reason.Internal).Remedy},
		{"no cause", &reason.Error{Code: reason.Internal}, reason.Lookup(reason.Internal).Remedy},
	} {
		if got := c.err.NextStep(); !strings.Contains(got, c.want) {
			t.Errorf("%s: next is %q, want %q", c.name, got, c.want)
		}
	}
	if e := reason.Fault(errors.New("secret")); strings.Contains(e.Error(), "secret") || e.Code != reason.Internal {
		t.Errorf("a fault shows %+v", e)
	}
}
