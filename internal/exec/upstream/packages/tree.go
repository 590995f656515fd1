package packages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"palyra/internal/core/reason"
)

// tree describes the content of a directory.
type tree struct {
	Digest string
	Files  int
	Bytes  int64
}

// mostFiles is the maximum number of files in one prefix.
const mostFiles = 200_000

// digestOf computes a digest over a directory: names, kinds, executable bits, links and all
// bytes. It refuses links that lead out of the directory and any other special file.
func digestOf(dir string) (tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return tree{}, err
	}
	defer root.Close()
	t, all := tree{}, sha256.New()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if t.Files++; t.Files > mostFiles {
			return reason.Errorf(reason.QuotaExceeded, "the package has more than %d files", mostFiles)
		}
		return t.add(all, root, name, d)
	})
	t.Digest = "sha256:" + hex.EncodeToString(all.Sum(nil))
	return t, err
}

func (t *tree) add(all hash.Hash, root *os.Root, name string, d fs.DirEntry) error {
	switch kind := d.Type(); {
	case kind.IsDir():
		note(all, "dir", name, "")
	case kind == fs.ModeSymlink:
		target, err := root.Readlink(filepath.FromSlash(name))
		if err != nil {
			return err
		}
		if path.IsAbs(target) || !within(path.Join(path.Dir(name), target)) {
			return reason.Errorf(reason.InvalidInput, "the link %q of the package leads out of it", name)
		}
		note(all, "link", name, target)
	case kind.IsRegular():
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum, err := sumOf(root, name)
		if err != nil {
			return err
		}
		t.Bytes += info.Size()
		word := "file"
		if info.Mode().Perm()&0o111 != 0 {
			word = "program"
		}
		note(all, word, name, sum)
	default:
		return reason.Errorf(reason.InvalidInput, "%q of the package is not a file, directory or link", name)
	}
	return nil
}

func within(name string) bool {
	return name != ".." && !strings.HasPrefix(name, "../")
}

// note adds one entry to the hash, each part with its length, so that different trees never have
// the same input.
func note(all hash.Hash, parts ...string) {
	for _, part := range parts {
		_, _ = fmt.Fprintf(all, "%d:%s,", len(part), part)
	}
}

func sumOf(root *os.Root, name string) (string, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// settle sets the modes of files and directories: readable for all, writable for the gateway
// only.
func settle(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() || info.Mode().Perm()&0o111 != 0 {
			mode = 0o755
		}
		if info.Mode().Perm() == mode {
			return nil
		}
		return os.Chmod(name, mode)
	})
}
