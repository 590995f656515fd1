package builtin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
)

// TestOddFilesAreRefused: special files and files that are too large are neither read nor
// written. Control for each: a regular file.
func TestOddFilesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	at := func(name string) string { return filepath.Join(b.dir, name) }
	b.write("plain", "hello")
	must.Do(t, unix.Mkfifo(at("fifo"), 0o666))
	odd := map[string]reason.Code{"fifo": reason.ToolFailed, "huge": reason.InputTooLarge}
	// Creating a device requires privileges.
	if err := unix.Mknod(at("device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err == nil {
		odd["device"] = reason.ToolFailed
	}
	fd := must.Get(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))(t)
	defer unix.Close(fd)
	dir := must.Get(os.Open(b.dir))(t)
	defer dir.Close()
	// The length of a socket's path is limited.
	must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", dir.Fd())}))
	odd["socket"] = reason.ToolFailed
	sparse := must.Get(os.Create(at("huge")))(t)
	must.Do(t, sparse.Truncate(workspace.MaxFile+1))
	must.Do(t, sparse.Close())
	refused := func(name string, in object) reason.Code {
		p := must.Get(b.propose(name, in))(t)
		plan, err := b.tools[name].Plan(context.Background(), p)
		if err != nil {
			return reason.Of(tool.Disclose(err, everything))
		}
		return reason.Code(b.run(context.Background(), tool.Call{Proposal: p, Plan: plan}).Reason)
	}
	for file, want := range odd {
		for name, in := range map[string]object{
			"fs.read": {"path": file}, "fs.write": {"path": file, "content": "x"},
		} {
			if got := refused(name, in); got != want {
				t.Errorf("%s of %s gives %q, want %s", name, file, got, want)
			}
		}
	}
	for name, in := range map[string]object{
		"fs.read": {"path": "plain"}, "fs.write": {"path": "fresh", "content": "x"},
	} {
		if got := refused(name, in); got != "" {
			t.Errorf("control: %s of a file like any other gives %s", name, got)
		}
	}
	// Control: one byte less is allowed.
	must.Do(t, os.Truncate(at("huge"), workspace.MaxFile))
	if got := refused("fs.read", object{"path": "huge", "limit": 1}); got != "" {
		t.Errorf("control: the largest file gives %s", got)
	}
}

// TestOddNames: files whose names contain spaces, quotes, line breaks and non-ASCII letters are
// ordinary files if the names are valid UTF-8.
func TestOddNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, name := range []string{" space ", "quote\"s", "line\nbreak", "\u00fcml\u00e4ut", "-dash", "tab\there", "\u202ertl"} {
		b.write(name, "content")
		if r := b.ok("fs.read", object{"path": name}); r["content"] != "content" || r["path"] != name {
			t.Errorf("%q: %v", name, r)
		}
	}
	b.refused("fs.read", `{"path":"a\u0000b"}`, reason.InvalidUTF8)
}
