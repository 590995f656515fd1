//go:build linux

package fault

import (
	"encoding/binary"
	"strconv"
	"testing"
)

// TestTwoDaemons: a second palyrad on the same state directory exits at once and names the
// holder. The first one is not affected. The lock is released when its process ends.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	d := start(t)
	c := d.dial()
	succeeded(t, c.patch(t.Context(), "one"))
	before := d.bytes(t)
	second, other := *d, *d.Palyrad
	second.Palyrad = &other
	second.refused(2, "process "+strconv.Itoa(d.Cmd.Process.Pid), d.State, "Stop it first")
	if d.bytes(t) != before {
		t.Error("the second palyrad changed the store of the first")
	}
	succeeded(t, c.patch(t.Context(), "two"))
	d.Kill()
	d.Start()
	succeeded(t, d.dial().patch(t.Context(), "three"))
	d.Stop()
	d.holds(nil)
}

// userVersion is the offset of the schema version in SQLite's file header.
const userVersion = 60

// TestOtherSchemaVersions gives a store the schema number of a newer or an older palyrad.
func TestOtherSchemaVersions(t *testing.T) {
	t.Parallel()
	s := theSample(t)
	for name, c := range map[string]struct {
		version uint32
		code    int
		says    string
	}{
		"newer": {9999, 2, "schema version 9999"},
		"older": {1, 2, "schema version 1, which this palyrad does not upgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := s.stopped.fork(t)
			change(t, d.store(), func(b []byte) []byte {
				binary.BigEndian.PutUint32(b[userVersion:], c.version)
				return b
			})
			before := d.bytes(t)
			d.refused(c.code, c.says)
			if d.bytes(t) != before {
				t.Error("the refusal changed the store")
			}
		})
	}
	// Control: with its own schema number, the store opens.
	d := s.stopped.fork(t)
	d.Start()
	d.Stop()
}
