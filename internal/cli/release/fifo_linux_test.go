package release

import (
	"os"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestFIFO: a FIFO without a writer is refused in place of each file. Opening it would otherwise
// wait forever.
func TestFIFO(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file func(*installation) string
		want reason.Code
	}{
		"signature": {func(i *installation) string { return i.signature }, reason.VerificationFailed},
		"list":      {func(i *installation) string { return i.list }, reason.InvalidInput},
		"key":       {func(i *installation) string { return i.key }, reason.InvalidInput},
		"companion": {func(i *installation) string { return i.program("palyrad") }, reason.VerificationFailed},
	} {
		i := installed(t)
		file := c.file(i)
		must.Do(t, os.Remove(file))
		must.Do(t, syscall.Mkfifo(file, 0o644))
		if _, err := i.verify(); reason.Of(err) != c.want {
			t.Errorf("%s: the error is %v, want %s", name, err, c.want)
		}
	}
}
