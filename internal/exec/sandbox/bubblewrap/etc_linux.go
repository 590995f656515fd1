package bubblewrap

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox/hostfiles"
	"palyra/internal/exec/sandbox/jail"
)

// generated returns the files of /etc that describe the sandbox instead of the host.
func generated() []etcFile {
	return []etcFile{
		{name: "/etc/passwd", content: "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\ntool:x:1000:1000:tool:" + command.Home + ":/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
		{name: "/etc/group", content: "root:x:0:\ntool:x:1000:\nnogroup:x:65534:\n"},
		{name: "/etc/nsswitch.conf", content: "passwd: files\ngroup: files\nhosts: files dns\n"},
		{name: "/etc/machine-id", content: "00000000000000000000000000000000\n"},
		{name: "/etc/hosts", content: "127.0.0.1 localhost palyra\n::1 localhost\n", ofNetwork: true},
		{name: "/etc/resolv.conf", content: jail.Resolver, ofNetwork: true},
	}
}

// mostCopied is the maximum size, in bytes, of a file of the host's /etc that is copied into the
// root. A mount costs more than copying a small file.
const mostCopied = 1 << 20

// etcFile is one file of /etc inside the sandbox.
type etcFile struct {
	name    string
	content string
	// source is the host's file with the content, "" for none.
	source string
	// ofNetwork marks files that come from the host if a program uses the host's network.
	ofNetwork bool

	file    *os.File
	size    int64
	changed time.Time
}

// etc holds the content of /etc in sandboxes. Small files are copies in the daemon's memory;
// the host's directories and larger files are bind mounts.
type etc struct {
	mu    sync.Mutex
	files []etcFile
	binds []string
}

func newEtc() (*etc, error) {
	e := &etc{files: generated()}
	for _, name := range hostfiles.Harmless() {
		source, err := filepath.EvalSymlinks(name)
		if err != nil {
			continue
		}
		switch small := smallFiles(source); {
		case isSmall(os.Stat(source)):
			e.files = append(e.files, etcFile{name: name, source: source})
		case small != nil:
			for _, base := range small {
				e.files = append(e.files, etcFile{name: filepath.Join(name, base), source: filepath.Join(source, base)})
			}
		default:
			e.binds = append(e.binds, "--ro-bind", source, name)
		}
	}
	for i := range e.files {
		if err := e.files[i].fill(); err != nil {
			e.close()
			return nil, err
		}
	}
	return e, nil
}

// isSmall reports whether a file may be copied. A copy has no owner, so a file that only some users
// may read is mounted instead.
func isSmall(info os.FileInfo, err error) bool {
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o004 != 0 && info.Size() <= mostCopied
}

// smallFiles returns the names in a directory if copying them costs less than a mount: they are few
// and small files. It returns nil for any other directory.
func smallFiles(dir string) []string {
	const most = 8
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > most {
		return nil
	}
	names := []string{}
	for _, entry := range entries {
		if !isSmall(entry.Info()) {
			return nil
		}
		names = append(names, entry.Name())
	}
	return names
}

// fill puts the content into a memory file.
func (f *etcFile) fill() error {
	content := []byte(f.content)
	if f.source != "" {
		info, err := os.Stat(f.source)
		if err != nil {
			return err
		}
		if content, err = os.ReadFile(f.source); err != nil {
			return err
		}
		f.size, f.changed = info.Size(), info.ModTime()
	}
	file, err := jail.DataFile(filepath.Base(f.name), content)
	if err != nil {
		return err
	}
	if f.file != nil {
		f.file.Close()
	}
	f.file = file
	return nil
}

// fresh reports whether the host's file is unchanged.
func (f *etcFile) fresh() bool {
	if f.source == "" {
		return true
	}
	info, err := os.Stat(f.source)
	return err == nil && info.Size() == f.size && info.ModTime().Equal(f.changed)
}

// open calls use with each file of a sandbox, positioned at its start.
func (e *etc) open(hostNetwork bool, use func(name string, f *os.File)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.files {
		f := &e.files[i]
		if hostNetwork && f.ofNetwork {
			continue
		}
		if !f.fresh() {
			if err := f.fill(); err != nil {
				return err
			}
		}
		// A second file description has its own offset.
		file, err := os.Open(jail.SelfPath(int(f.file.Fd())))
		if err != nil {
			return err
		}
		use(f.name, file)
	}
	return nil
}

// network returns the arguments for the host's own network files.
func network() []string {
	var a []string
	for _, f := range generated() {
		if source, err := filepath.EvalSymlinks(f.name); f.ofNetwork && err == nil {
			a = append(a, "--ro-bind", source, f.name)
		}
	}
	return a
}

func (e *etc) close() {
	for _, f := range e.files {
		if f.file != nil {
			f.file.Close()
		}
	}
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
