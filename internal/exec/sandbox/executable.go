package sandbox

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Program is a resolved executable with what the guards need to know of it.
type Program struct {
	tool.Executable
	// Basename is of the resolved file: "python3.11", not "python".
	Basename string
	// Called is the basename as the caller wrote it, which decides what a
	// multi-call program such as busybox does.
	Called string
	// Shebang is the basename of the interpreter that a script names in its
	// first line ("" for a binary); "env" is looked through.
	Shebang string
	// Interpreter is what that line names.
	Interpreter Interpreter
	// Origin is where the file lies, as tool.ExecFacts names it. The caller says
	// which files are the workspace's.
	Origin string
	// Copy is the basename of an installed launcher or interpreter that has
	// the same bytes, "" for none; CopyOf sets it.
	Copy string
}

// Interpreter is what the first line of a script names, as execve(2) reads it.
type Interpreter struct {
	// Path is "" for a binary, and may be relative.
	Path string
	// Argument is the rest of the line, "" for none.
	Argument string
}

// Names are those by which the guards know the program: as resolved, as
// called, and that of the installed program it is a copy of.
func (p Program) Names() []string {
	names := []string{p.Basename, p.Called}
	if p.Copy != "" {
		names = append(names, p.Copy)
	}
	return names
}

// IsInterpreter reports whether the program runs code that it is given.
func (p Program) IsInterpreter() bool { return slices.ContainsFunc(p.Names(), IsInterpreter) }

// IsShell reports whether the program is a shell.
func (p Program) IsShell() bool { return slices.ContainsFunc(p.Names(), IsShell) }

// Check refuses the program by every name that it has, and a script by the name
// of its interpreter. Scripts below /usr and in toolchains are the machine's own
// programs: they may be written for a shell, and for an interpreter where those
// are allowed.
func (p Program) Check(let Interpreters) error {
	names := p.Names()
	installed := below(p.Path, "/usr") || p.Origin == tool.OriginToolchain
	if p.Shebang != "" && (!installed || slices.Contains(interpreters, Family(p.Shebang))) {
		names = append(names, p.Shebang)
	}
	for _, name := range names {
		if err := Denied(name, let); err != nil {
			return err
		}
	}
	return nil
}

// ReadsCodeFromStdin reports whether the function of the same name does for any
// of the program's Names.
func (p Program) ReadsCodeFromStdin(argv []string) bool {
	return slices.ContainsFunc(p.Names(), func(name string) bool { return ReadsCodeFromStdin(name, argv) })
}

// Facts are what policy sees of the program started with argv.
func (p Program) Facts(argv []string) *tool.ExecFacts {
	first, second := p.command(argv)
	return &tool.ExecFacts{
		Basename: p.Basename, Path: p.Path, SHA256: p.SHA256,
		Arg1: first, Arg2: second,
		IsInterpreter: p.IsInterpreter(),
		IsShell:       p.IsShell(),
		InlineCode:    slices.ContainsFunc(p.Names(), func(name string) bool { return InlineCode(name, argv) }),
		Shebang:       p.Shebang,
		Origin:        p.Origin,
		Starts:        Starts(p.Names(), argv),
	}
}

// Resolver finds executables and remembers their digests. The zero value is
// ready; it may be used by several goroutines.
type Resolver struct{ hashes hashCache }

// ResolveExecutable finds and hashes a program. A name without a slash, such as
// "git", is looked for in the absolute directories of path; a name with one must
// be absolute: of "./bin/run", the caller makes a path in the workspace first.
// Symbolic links are resolved, so python3 becomes python3.11.
func ResolveExecutable(name string, path []string) (Program, error) {
	return new(Resolver).ResolveExecutable(name, path)
}

// ResolveExecutable is like the function of the same name, but hashes a file only
// once: it remembers the digest for as long as device, inode, size, mtime and
// ctime stay the same.
func (r *Resolver) ResolveExecutable(name string, path []string) (Program, error) {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return Program{}, reason.Errorf(reason.InvalidInput, "the name of the program is empty or holds a NUL")
	}
	found, err := find(name, path)
	if err != nil {
		return Program{}, err
	}
	resolved, err := filepath.EvalSymlinks(found)
	if err != nil {
		return Program{}, reason.Errorf(reason.SpawnFailed, "the program %q cannot be resolved", shorten(name)).WithCause(err)
	}
	p := Program{Basename: filepath.Base(resolved), Called: filepath.Base(name), Origin: originOf(resolved)}
	f, err := openRegular(resolved)
	if err != nil {
		return Program{}, reason.Errorf(reason.SpawnFailed, "the program %q is not a file that can be read", shorten(name)).WithCause(err)
	}
	defer f.Close()
	sum, err := r.hashes.sum(f)
	if err != nil {
		return Program{}, reason.Errorf(reason.SpawnFailed, "the program %q cannot be read", shorten(name)).WithCause(err)
	}
	p.Executable = tool.Executable{Path: resolved, SHA256: sum}
	p.Shebang, p.Interpreter = shebang(f)
	return p, nil
}

// CopyOf returns p with Copy set when a launcher or interpreter in one of the
// directories of path has the same bytes, so that the guards know a copy of
// /bin/sh by the name of sh even when it is called "build". Files of another size
// are not read.
func (r *Resolver) CopyOf(p Program, path []string) Program {
	own, err := os.Stat(p.Path)
	if err != nil {
		return p
	}
	for _, dir := range path {
		if !filepath.IsAbs(dir) {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if Denied(entry.Name(), NoInterpreters) != nil && r.same(filepath.Join(dir, entry.Name()), own.Size(), p.SHA256) {
				p.Copy = entry.Name()
				return p
			}
		}
	}
	return p
}

// same reports whether a file has that size and digest.
func (r *Resolver) same(name string, size int64, sha256 string) bool {
	f, err := openRegular(name)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != size {
		return false
	}
	sum, err := r.hashes.sum(f)
	return err == nil && sum == sha256
}

// OpenExecutable opens a program for a run and compares its bytes with what
// was resolved before; other bytes give reason.BindingMismatch. The caller
// closes the file.
func (r *Resolver) OpenExecutable(e tool.Executable) (*os.File, error) {
	if !filepath.IsAbs(e.Path) {
		return nil, reason.Errorf(reason.InvalidInput, "the path of the program is not absolute")
	}
	f, err := openRegular(e.Path)
	if err != nil {
		return nil, reason.Errorf(reason.BindingMismatch, "the program %s is no longer there", e.Path)
	}
	sum, err := r.hashes.sum(f)
	if err == nil && sum != e.SHA256 {
		err = reason.Errorf(reason.BindingMismatch, "the program %s is not the one that was approved", e.Path).
			WithField("executable", sum)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func find(name string, path []string) (string, error) {
	if filepath.IsAbs(name) {
		if !executable(name) {
			return "", reason.Errorf(reason.SpawnFailed, "there is no program %q", shorten(name))
		}
		return name, nil
	}
	if strings.ContainsAny(name, `/\`) {
		return "", reason.Errorf(reason.InvalidInput, "the program %q is neither a name nor an absolute path", shorten(name))
	}
	for _, dir := range path {
		// A relative directory would let the workspace choose the program.
		if !filepath.IsAbs(dir) {
			continue
		}
		if full := filepath.Join(dir, name); executable(full) {
			return full, nil
		}
	}
	return "", reason.Errorf(reason.SpawnFailed, "the program %q was not found in %s", shorten(name), strings.Join(path, ":"))
}

func executable(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && (info.Mode()&0o111 != 0 || exeBySuffix(name))
}

func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// shebang returns the basename of a script's interpreter, and what its first line says.
func shebang(f *os.File) (string, Interpreter) {
	head := make([]byte, 256)
	n, _ := f.ReadAt(head, 0)
	line, ok := bytes.CutPrefix(head[:n], []byte("#!"))
	if !ok {
		return "", Interpreter{}
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return "sh", Interpreter{} // what a shell would do with it
	}
	named := strings.TrimLeft(string(line), " \t")
	end := len(named) - len(strings.TrimLeftFunc(named, func(r rune) bool { return r != ' ' && r != '\t' }))
	interpreter := Interpreter{Path: named[:end], Argument: strings.Trim(named[end:], " \t")}
	name := filepath.Base(words[0])
	if Family(name) != "env" {
		return name, interpreter
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return filepath.Base(word), interpreter
		}
	}
	return name, interpreter
}

// originOf tells the system's own programs by the directory that they lie in.
func originOf(resolved string) string {
	if OfSystem(resolved) {
		return tool.OriginSystem
	}
	return tool.OriginOther
}

// OfSystem reports whether a real path lies in a directory of the system's own.
func OfSystem(resolved string) bool {
	return slices.ContainsFunc(systemDirs(runtime.GOOS), func(dir string) bool { return below(resolved, dir) })
}

// systemDirs hold programs that only an administrator installs.
func systemDirs(goos string) []string {
	switch goos {
	case "darwin":
		return []string{"/usr", "/bin", "/sbin", "/System", "/Library"}
	case "windows":
		return []string{os.Getenv("SystemRoot"), os.Getenv("ProgramFiles")}
	}
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"}
}

func below(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
