// Package command interprets command lines. It determines the program that a name selects, the
// files and programs that the arguments name, the environment of the program, and the author of
// its git commits. Its checks provide early, clear errors and facts for policies; the security
// boundary is the sandbox.
//
// A program that is named by a link in the workspace is started under its own path, because git
// and busybox select a command by argv[0]. Otherwise a link git-push would push under a rule
// for git status. Interpreters keep the name of a link of their family, because Python finds
// its virtual environment by it.
package command

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

// Program is a resolved executable with the data that the guards need.
type Program struct {
	tool.Executable
	// Basename is the basename of the resolved file: "python3.11", not "python".
	Basename string
	// Called is the basename as the caller wrote it, which selects the function of a multi-call
	// program such as busybox.
	Called string
	// Shebang is the basename of the interpreter in the first line of a script ("" for a binary);
	// "env" is replaced by the program that it starts.
	Shebang string
	// Interpreter is the interpreter in that line.
	Interpreter Interpreter
	// Origin is the location of the file, as in tool.ExecFacts. The caller sets it for files of
	// the workspace.
	Origin string
	// Copy is the basename of an installed launcher or interpreter with the same bytes, "" for
	// none; CopyOf sets it.
	Copy string
}

// Interpreter is the content of a script's first line, as parsed by execve(2).
type Interpreter struct {
	// Path is "" for a binary, and may be relative.
	Path string
	// Argument is the rest of the line, "" for none.
	Argument string
}

// Names returns the names that the guards check: the resolved name, the called name, and the name
// of the installed program of which it is a copy.
func (p Program) Names() []string {
	names := []string{p.Basename, p.Called}
	if p.Copy != "" {
		names = append(names, p.Copy)
	}
	return names
}

// IsInterpreter reports whether the program runs code that it receives.
func (p Program) IsInterpreter() bool { return slices.ContainsFunc(p.Names(), IsInterpreter) }

// IsShell reports whether the program is a shell.
func (p Program) IsShell() bool { return slices.ContainsFunc(p.Names(), IsShell) }

// Check refuses the program by any of its names, and a script by the name of its interpreter.
// Scripts below /usr and in toolchains are programs of the machine: they may use a shell, and an
// interpreter if interpreters are allowed.
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

// ReadsCodeFromStdin reports whether the function of the same name returns true for any of the
// program's Names.
func (p Program) ReadsCodeFromStdin(argv []string) bool {
	return slices.ContainsFunc(p.Names(), func(name string) bool { return ReadsCodeFromStdin(name, argv) })
}

// Facts returns the facts for policies about the program started with argv.
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

// Resolver finds executables and caches their digests. The zero value is ready for use and safe
// for concurrent use.
type Resolver struct{ hashes hashCache }

// ResolveExecutable finds a program and computes its digest. A name without a slash, such as
// "git", is looked up in the absolute directories of path. Other names must be absolute; the
// caller must first convert "./bin/run" to a path in the workspace. Symbolic links are resolved,
// so python3 becomes python3.11.
func ResolveExecutable(name string, path []string) (Program, error) {
	return new(Resolver).ResolveExecutable(name, path)
}

// ResolveExecutable is like the function of the same name, but caches the digest of a file while
// its device, inode, size, mtime and ctime stay the same.
func (r *Resolver) ResolveExecutable(name string, path []string) (Program, error) {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return Program{}, reason.Errorf(reason.InvalidInput, "the name of the program is empty or contains a NUL")
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

// CopyOf returns p with Copy set if a launcher or interpreter in one of the directories of path
// has the same bytes. The guards thereby recognize a copy of /bin/sh even if it is called
// "build". Files of another size are not read.
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

// OpenExecutable opens a program for a run and compares its bytes with the earlier digest;
// different bytes return reason.BindingMismatch. The caller closes the file.
func (r *Resolver) OpenExecutable(e tool.Executable) (*os.File, error) {
	if !filepath.IsAbs(e.Path) {
		return nil, reason.Errorf(reason.InvalidInput, "the path of the program is not absolute")
	}
	f, err := openRegular(e.Path)
	if err != nil {
		return nil, reason.Errorf(reason.BindingMismatch, "the program %s no longer exists", e.Path)
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
			return "", reason.Errorf(reason.SpawnFailed, "the program %q does not exist", shorten(name))
		}
		return name, nil
	}
	if strings.ContainsAny(name, `/\`) {
		return "", reason.Errorf(reason.InvalidInput, "the program %q is not a name or an absolute path", shorten(name))
	}
	for _, dir := range path {
		// With a relative directory, the workspace could choose the program.
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

// shebang returns the basename of a script's interpreter, and the content of its first line.
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
		return "sh", Interpreter{} // as a shell would run it
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

// originOf identifies the system's own programs by their directory.
func originOf(resolved string) string {
	if OfSystem(resolved) {
		return tool.OriginSystem
	}
	return tool.OriginOther
}

// OfSystem reports whether a real path is in a system directory.
func OfSystem(resolved string) bool {
	return slices.ContainsFunc(systemDirs(runtime.GOOS), func(dir string) bool { return below(resolved, dir) })
}

// systemDirs contain programs that only an administrator installs.
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
