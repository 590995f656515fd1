package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"palyra/internal/core/reason"
)

// privateFile is a file that contains only a credential.
type privateFile struct {
	path string
	// kind and holds describe the file in messages: "API key" and "key".
	kind, holds string
	// most is the maximum length in bytes.
	most int
	// look is os.Stat, or os.Lstat for a file that must not be a link.
	look func(string) (fs.FileInfo, error)
}

// read returns the content of a private file: regular, owned by the user that reads it, and
// inaccessible to others. It checks the kind before it opens the file, because opening a named
// pipe would block, and checks the opened file again.
func (p privateFile) read() ([]byte, error) {
	before, err := p.look(p.path)
	if err != nil {
		return nil, p.problem("cannot be read: "+plain(err), "Make it with the "+p.holds+" in it.")
	}
	if !before.Mode().IsRegular() {
		return nil, p.problem("is not a regular file", "Name a file that holds the "+p.holds+".")
	}
	f, err := os.Open(p.path)
	if err != nil {
		return nil, p.problem("cannot be read: "+plain(err), "Make it readable for the user that palyrad runs as.")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, p.problem("cannot be read: "+plain(err), "Look at its file system.")
	}
	if !os.SameFile(before, info) {
		return nil, p.problem("was exchanged while it was opened", "Put a new one in its place by renaming, and try again.")
	}
	if problem, remedy := notPrivate(p.path, info); problem != "" {
		return nil, p.problem(problem, remedy)
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(p.most)+1))
	switch {
	case err != nil:
		return nil, p.problem("cannot be read: "+plain(err), "Look at its file system.")
	case len(text) > p.most:
		clear(text)
		return nil, p.problem(fmt.Sprintf("has more than %d bytes", p.most), p.alone())
	}
	return text, nil
}

// alone returns the remedy for a file with other content.
func (p privateFile) alone() string { return "Write the " + p.holds + " into it, and nothing else." }

func (p privateFile) problem(problem, remedy string) error {
	return reason.Errorf(reason.ConfigInvalid, "the %s file %s %s", p.kind, p.path, problem).WithRemedy("%s", remedy)
}

// unusable adds a finding for a file that cannot be used.
func (k *checker) unusable(key string, err error) {
	var why *reason.Error
	if errors.As(err, &why) {
		remedy := strings.TrimSuffix(strings.ToLower(why.Remedy[:1])+why.Remedy[1:], ".")
		k.find(key, "cannot be used: "+why.Message, remedy)
	}
}
