package jail

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/inside"
)

// A null device that is a regular file makes every sandbox fail, because covered files would be
// readable. The error names the file, the layer and the next step. The file belongs to the
// test.
func TestFaultyNullIsNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "null")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	judge := func(null string, unmasked ...string) error {
		e := &evidence{
			machine: &Machine{host: host{null: null}, room: room{tree: cgroup.None()}},
			plan:    &Plan{Requested: []string{LayerMasks}, Spec: inside.Spec{Inner: inside.Inner{Masks: []string{"/proc/kcore"}}}},
		}
		e.report.Unmasked = unmasked
		return e.judge(nil)
	}
	for null, says := range map[string][]string{
		file:                   {"proc_masks", "does not cover /proc/kcore", file, "is a regular file"},
		file + "-that-is-gone": {"proc_masks", "cannot be checked"},
		t.TempDir():            {"is not the null device"},
	} {
		err := judge(null, "/proc/kcore")
		var known *reason.Error
		if !errors.As(err, &known) || known.Code != reason.SandboxUnavailable || known.Fields["layer"] != LayerMasks || known.Fields["file"] != null ||
			!strings.Contains(known.Remedy, "mknod -m 666 "+null) {
			t.Fatalf("%s: %+v", null, err)
		}
		for _, text := range says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not say %q", err, text)
			}
		}
	}
	// Controls: with a real device another cause is reported, and covered files are not a failure.
	var known *reason.Error
	if err := judge("/dev/null", "/proc/kcore"); !errors.As(err, &known) || known.Fields["file"] != "/proc/kcore" || strings.Contains(known.Remedy, "mknod") {
		t.Errorf("with the device: %+v", err)
	}
	if err := judge(file); err != nil {
		t.Errorf("nothing is wrong inside, and: %v", err)
	}
}
