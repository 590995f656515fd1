package evidence_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
)

// slowLines returns one line each second.
type slowLines struct{ rest []byte }

func (s *slowLines) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Second)
	n := copy(p, s.rest[:bytes.IndexByte(s.rest, '\n')+1])
	s.rest = s.rest[n:]
	return n, nil
}

// TestVerifyProgress: on a terminal, a count is displayed during the verification of a long export,
// and then only the result.
func TestVerifyProgress(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Journaled()
	export := must.Get(os.ReadFile(w.Export()))(t)
	for _, c := range []struct {
		name     string
		terminal bool
		want     string
	}{{"a person", true, "verifying: 5 events"}, {"a pipe", false, ""}} {
		synctest.Test(t, func(t *testing.T) {
			r := w.With(printer.Streams{In: &slowLines{export}, ErrTerminal: c.terminal, Width: 80}, "journal", "verify", "-")
			if r.Code != 0 || !strings.Contains(r.Out, "verified") {
				t.Errorf("%s: exit code %d\n%s%s", c.name, r.Code, r.Out, r.Err)
			}
			if !strings.Contains(r.Err, c.want) || c.want == "" && r.Err != "" || c.want != "" && !strings.HasSuffix(r.Err, " \r") {
				t.Errorf("%s: stderr %q", c.name, r.Err)
			}
		})
	}
}
