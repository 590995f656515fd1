package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Private is a file or directory of the operator that no workspace may contain
// or lie in: whoever writes there decides what is allowed.
type Private struct {
	// Name is the setting that says where it is, such as "policy.dir".
	Name string
	// Path is absolute; it need not exist yet.
	Path string
}

// resolvedPrivate is a Private with every place that decides what its path means.
type resolvedPrivate struct {
	Private
	paths []string
}

// maxHops bounds how many symbolic links one path may lead through.
const maxHops = 64

// paths lists where the path leads, and each symbolic link on the way: who
// can replace the link decides what is read.
func (p Private) paths() ([]string, error) {
	if !filepath.IsAbs(p.Path) {
		return nil, bad("%s %q is not an absolute path", p.Name, p.Path)
	}
	var places []string
	volume := filepath.VolumeName(p.Path)
	at, rest := volume+string(filepath.Separator), parts(p.Path[len(volume):])
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// What does not exist yet keeps its place.
			return append(places, filepath.Join(append([]string{next}, rest...)...)), nil
		case err != nil:
			return nil, bad("%s %q cannot be looked at: %w", p.Name, p.Path, err)
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil || len(places) == maxHops {
			return nil, bad("%s %q leads through symbolic links that cannot be followed", p.Name, p.Path)
		}
		places = append(places, next)
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
			target = target[len(filepath.VolumeName(target)):]
		}
		rest = append(parts(target), rest...)
	}
	return append(places, at), nil
}

func parts(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r < 128 && os.IsPathSeparator(uint8(r)) })
}

// apart refuses a workspace that contains what is private or lies in it.
func (k resolvedPrivate) apart(d Declaration) error {
	for _, place := range k.paths {
		relation := ""
		switch {
		case inside(d.Path, place):
			relation = "contains"
		case inside(place, d.Path):
			relation = "lies inside"
		default:
			continue
		}
		return bad("workspace %q: %q %s %s (%q)", d.Name, d.Path, relation, k.Name, place).
			WithRemedy("Set %s to a path outside of every workspace, or declare a smaller directory for workspace %q: what an agent may write must not decide what it is allowed.", k.Name, d.Name)
	}
	return nil
}

// refuseBundle refuses a workspace that is a credential bundle: reading it is
// being its owner.
func refuseBundle(d Declaration) error {
	holds := func(name string) bool { return exists(filepath.Join(d.Path, name)) }
	if !holds("endpoint") || !holds("key.pem") && !holds("cert.pem") && !holds("token") {
		return nil
	}
	return bad("workspace %q: %q is a credential bundle (it has a credential and endpoint)", d.Name, d.Path).
		WithRemedy("Declare another directory as the path of workspace %q, or move the bundle out of it.", d.Name)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
