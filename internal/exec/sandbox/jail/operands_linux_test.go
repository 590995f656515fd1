package jail

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
)

// pinned pins the operands of a call, and returns its order.
func pinned(t *testing.T, root string, operands ...tool.Operand) (*order, error) {
	t.Helper()
	w := must.Get(OpenWorkspace(root))(t)
	defer w.Close()
	o := &order{plan: &Plan{Workspace: w}, files: must.Get(newCallFiles())(t)}
	t.Cleanup(o.files.close)
	return o, o.pin(Work{Spec: sandbox.Spec{Operands: operands}})
}

// The pinned bytes of an operand are the approved ones, from a file of the workspace, and
// cannot be changed.
func TestOperandsAreKept(t *testing.T) {
	t.Parallel()
	top := realPath(t, t.TempDir())
	root := filepath.Join(top, "work")
	must.Do(t, os.MkdirAll(filepath.Join(root, "dir"), 0o700))
	for _, err := range []error{
		os.WriteFile(filepath.Join(top, "outside"), []byte("text"), 0o600),
		os.WriteFile(filepath.Join(root, "file"), []byte("text"), 0o600),
		os.Symlink("../outside", filepath.Join(root, "leaving")), os.Symlink("file", filepath.Join(root, "link")),
		unix.Mkfifo(filepath.Join(root, "fifo"), 0o600),
	} {
		must.Do(t, err)
	}
	text, nothing := Digest([]byte("text")), Digest(nil)
	good := tool.Operand{Path: "file", SHA256: text}
	for name, bad := range map[string]tool.Operand{
		"other bytes":        {Path: "file", SHA256: Digest([]byte("other"))},
		"gone":               {Path: "missing", SHA256: text},
		"above":              {Path: "../outside", SHA256: text},
		"a link that leaves": {Path: "leaving", SHA256: text},
		"a FIFO":             {Path: "fifo", SHA256: nothing},
		"a directory":        {Path: "dir", SHA256: nothing},
	} {
		if _, err := pinned(t, root, good, bad); reason.Of(err) != reason.BindingMismatch {
			t.Errorf("%s: %v", name, err)
		}
	}
	o, err := pinned(t, root, good, tool.Operand{Path: "link", SHA256: text}) // control
	if err != nil || len(o.order.Operands) != 2 || o.order.Operands[1].Path != "link" || o.order.Operands[1].At != "file" {
		t.Fatalf("kept %+v, %v", o.order.Operands, err)
	}
	bytes := o.files[inside.BytesFD]
	if kept, err := io.ReadAll(bytes); err != nil || string(kept) != "texttext" || !final(t, bytes) {
		t.Errorf("kept %q, %v, final %t", kept, err, final(t, bytes))
	}
}

// The number of pinned bytes is limited; operands beyond the limit are reported.
func TestKeptOperandsAreBounded(t *testing.T) {
	t.Parallel()
	root := realPath(t, t.TempDir())
	var operands []tool.Operand
	sum := Digest(make([]byte, MaxPinned))
	for i := range MaxPinnedTotal/MaxPinned + 1 {
		name := strconv.Itoa(i)
		must.Do(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
		must.Do(t, os.Truncate(filepath.Join(root, name), MaxPinned))
		operands = append(operands, tool.Operand{Path: name, SHA256: sum})
	}
	last := len(operands) - 1
	o, err := pinned(t, root, operands...)
	if err != nil || len(o.order.Operands) != last || !slices.Equal(o.unpinned, []string{operands[last].Path}) {
		t.Errorf("kept %d, named %v, %v", len(o.order.Operands), o.unpinned, err)
	}
}

// The helper writes only to the hashed files, even if the files or links to them changed
// meanwhile.
func TestHelperRefusesOperands(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	top := realPath(t, t.TempDir())
	root, outside := filepath.Join(top, "work"), filepath.Join(top, "outside")
	in := func(name string) string { return filepath.Join(root, name) }
	when := time.Unix(1_000_000_000, 0)
	for _, err := range []error{
		os.Mkdir(root, 0o700), os.WriteFile(outside, []byte("old"), 0o600), os.Symlink(outside, in("leaving")), unix.Mkfifo(in("fifo"), 0o600),
		os.WriteFile(in("file"), []byte("old"), 0o600), os.WriteFile(in("edited"), []byte("older"), 0o600), os.WriteFile(in("other"), []byte("old"), 0o600),
		os.WriteFile(in("linked"), []byte("old"), 0o600), os.Symlink("linked", in("link")), os.Symlink("other", in("turned")),
	} {
		must.Do(t, err)
	}
	for _, name := range []string{"file", "edited", "other", "linked"} {
		must.Do(t, os.Chtimes(in(name), when, when))
	}
	// The FIFO has a reader, so that opening it would not block.
	fifo := must.Get(os.OpenFile(in("fifo"), os.O_RDWR, 0))(t)
	defer fifo.Close()
	for _, c := range []struct {
		path, at string
		fine     bool
	}{
		{"leaving", "leaving", false}, {"../outside", "../outside", false}, {"fifo", "fifo", false}, {"gone", "gone", false}, {"edited", "edited", false},
		{"turned", "turned", false}, {"turned", "file", false}, {"link", "linked", true}, {"file", "file", true},
	} {
		h := startHelper(t, m, inside.StageInner, specFile(t, inside.Spec{Inner: inside.Inner{Dir: root, NoNewPrivs: true}}))
		operand := inside.Operand{Path: c.path, At: c.at, Size: 3, Mode: 0o600, Mtime: when.UnixNano()}
		must.Do(t, h.files.fill(inside.BytesFD, []byte("new")))
		h.order(inside.Order{Self: true, Argv: []string{helperName}, Cwd: "/", Operands: []inside.Operand{operand}})
		if _, _, err := receive(h.control, 1); (err == nil) != c.fine {
			t.Errorf("%s at %s: %v", c.path, c.at, err)
		} else if _, ok := strings.CutPrefix(c.path, "turned"); ok && reason.Of(err) != reason.BindingMismatch {
			t.Errorf("%s at %s: %v", c.path, c.at, err)
		}
		h.end()
	}
	for name, want := range map[string]string{outside: "old", in("other"): "old", in("edited"): "older", in("linked"): "new", in("file"): "new"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
}
