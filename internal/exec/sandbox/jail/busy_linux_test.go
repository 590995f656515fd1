package jail

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/inside"
)

// The start of a program that is open for writing is retried for a limited time. This state
// occurs briefly if palyrad forks while it writes the file.
func TestProgramOpenForWriting(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	text := must.Get(os.ReadFile("/usr/bin/true"))(t)
	for name, first := range map[string]bool{"as a child": true, "in place of the helper": false} {
		start := func(t *testing.T) (*os.File, *helperRun) {
			file := filepath.Join(t.TempDir(), "program")
			must.Do(t, os.WriteFile(file, text, 0o755))
			writer := must.Get(os.OpenFile(file, os.O_WRONLY, 0))(t)
			t.Cleanup(func() { writer.Close() })
			h := startHelper(t, m, inside.StageInner, specFile(t, inside.Spec{Inner: inside.Inner{Dir: "/", First: first}}))
			h.order(inside.Order{Exec: file, File: identityOf(t, file), Argv: []string{"true"}, Cwd: "/"})
			if _, _, err := receive(h.control, 1); err != nil {
				t.Fatal(err)
			}
			must.Do(t, send(h.control, inside.Go))
			return writer, h
		}
		t.Run("for a moment, "+name, func(t *testing.T) {
			writer, h := start(t)
			time.AfterFunc(20*time.Millisecond, func() { writer.Close() })
			if _, _, err := receive(h.control, 0); !errors.Is(err, errNoReport) {
				t.Error(err)
			}
			if code := h.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
		t.Run("all the time, "+name, func(t *testing.T) {
			_, h := start(t)
			_, _, err := receive(h.control, 0)
			if code := h.end(); code != 125 || reason.Of(err) != reason.SpawnFailed || !strings.Contains(err.Error(), "open for writing") {
				t.Errorf("exit code %d, %v", code, err)
			}
		})
	}
}
