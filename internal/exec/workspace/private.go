package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Private is a file or directory of the operator that no workspace may overlap, because write
// access to it controls permissions.
type Private struct {
	// Name is the setting that contains the path, such as "policy.dir".
	Name string
	// Path is absolute; it need not exist yet.
	Path string
}

// resolvedPrivate is a Private with all paths that determine its target.
type resolvedPrivate struct {
	Private
	paths []string
}

// maxHops limits the chain of symbolic links of one path.
const maxHops = 64

// paths lists the target of the path and each symbolic link on the way: replacing a link changes
// which file is read.
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
			// The missing end of the path is kept unchanged.
			return append(places, filepath.Join(append([]string{next}, rest...)...)), nil
		case err != nil:
			return nil, bad("%s %q cannot be checked: %w", p.Name, p.Path, err)
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

// apart returns an error for a workspace that contains a private path or is inside one.
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
			WithRemedy("Set %s to a path outside of every workspace, or declare a smaller directory for workspace %q: an agent must not be able to write the files that control its permissions.", k.Name, d.Name)
	}
	return nil
}

// refuseBundle refuses a workspace that is a credential bundle: read access to it is sufficient
// to impersonate its owner.
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
