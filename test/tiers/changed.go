package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// runChanged runs the tests of the packages that differ from the base and of the packages
// that import one of them directly.
func (s *session) runChanged(ctx context.Context) error {
	base, err := s.comparedWith(ctx)
	if err != nil {
		return err
	}
	files, err := changedFiles(ctx, base)
	if err != nil {
		return err
	}
	all, err := listPackages(ctx, s.goTool, "./...")
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	changed, err := affected(root, files, all)
	if err != nil {
		return err
	}
	t, left := tiersOf(quick)[0], []string{}
	for _, p := range all {
		why, ok := changed[p.ImportPath]
		switch {
		case !ok || !p.hasTests():
		case !t.in(p):
			left = append(left, p.folder(root))
		default:
			fmt.Fprintf(s.out, "%s: %s\n", p.folder(root), why)
			t.packages = append(t.packages, p)
		}
	}
	fmt.Fprintf(s.out, "== %d files differ from %s, %d packages are tested\n", len(files), base, len(t.packages))
	if len(left) > 0 {
		fmt.Fprintf(s.out, "== left to make test, for they need root, a network, a browser or a foreign program: %s\n", strings.Join(left, " "))
	}
	if len(t.packages) == 0 {
		return nil
	}
	longestFirst(t.name, t.packages)
	return s.runChosen(ctx, []tier{t})
}

// keepAffected removes from a tier the packages that the change does not affect. The change is the
// difference from the commit of comparedWith or, if that difference affects no package, from
// HEAD~1. Without a commit to compare with, the tier keeps all packages.
func (s *session) keepAffected(ctx context.Context, t *tier, all []pkg) error {
	base, err := s.comparedWith(ctx)
	if err != nil && s.base != "" {
		return err
	}
	var why map[string]string
	if err == nil {
		why, err = affectedByGo(ctx, base, all)
	}
	if err == nil && len(why) == 0 {
		base = "HEAD~1"
		why, err = affectedByGo(ctx, base, all)
	}
	if err != nil {
		fmt.Fprintf(s.out, "== %s: all %d packages, because no commit is available to compare with\n", t.name, len(t.packages))
		return nil //nolint:nilerr // The tier runs more tests, not fewer.
	}
	whole := len(t.packages)
	t.packages = slices.DeleteFunc(t.packages, func(p pkg) bool { return why[p.ImportPath] == "" })
	fmt.Fprintf(s.out, "== %s: %d of %d packages, those affected by the Go files that differ from %s\n", t.name, len(t.packages), whole, base)
	return nil
}

// affectedByGo returns the packages that are affected by the Go files that differ from a
// commit. Other files cannot introduce a data race.
func affectedByGo(ctx context.Context, base string, all []pkg) (map[string]string, error) {
	files, err := changedFiles(ctx, base)
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		return !strings.HasSuffix(file, ".go") && file != "go.mod" && file != "go.sum"
	})
	return affected(root, files, all)
}

// comparedWith returns the commit that the working tree is compared with.
func (s *session) comparedWith(ctx context.Context) (string, error) {
	for _, name := range []string{s.base, "origin/main", "HEAD~1"} {
		if name == "" {
			continue
		}
		if _, err := git(ctx, "rev-parse", "--verify", "--quiet", name+"^{commit}"); err == nil {
			if base, err := git(ctx, "merge-base", name, "HEAD"); err == nil {
				return base, nil
			}
			return name, nil
		}
		if name == s.base {
			return "", fmt.Errorf("BASE=%s is not a commit of this repository; fetch it or name another", name)
		}
	}
	return "", errors.New("neither origin/main nor HEAD~1 exists; set BASE to a commit")
}

// changedFiles returns the files that differ from a commit, uncommitted and untracked ones
// included, relative to the root of the repository.
func changedFiles(ctx context.Context, base string) ([]string, error) {
	tracked, err := git(ctx, "diff", "--name-only", "--no-renames", "-z", base)
	if err != nil {
		return nil, err
	}
	untracked, err := git(ctx, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	files := strings.FieldsFunc(tracked+"\x00"+untracked, func(r rune) bool { return r == 0 })
	slices.Sort(files)
	return slices.Compact(files), nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// affected returns, by import path, the packages whose tests a change of files can break, each
// with the reason. The reason is a file of the package itself, one of a package that it imports
// directly, or a file elsewhere that its tests name. A change of go.mod or go.sum affects
// all packages.
func affected(root string, files []string, all []pkg) (map[string]string, error) {
	byFolder := map[string]pkg{}
	for _, p := range all {
		byFolder[p.folder(root)] = p
	}
	why, changed := map[string]string{}, map[string]bool{}
	for _, file := range files {
		if file == "go.mod" || file == "go.sum" {
			for _, p := range all {
				why[p.ImportPath] = file + " differs"
			}
			return why, nil
		}
		if p, ok := ownerOf(file, byFolder); ok {
			changed[p.ImportPath] = true
			why[p.ImportPath] = file + " differs"
			continue
		}
		if err := readers(file, all, why); err != nil {
			return nil, err
		}
	}
	for _, p := range all {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if changed[imported] && why[p.ImportPath] == "" {
				why[p.ImportPath] = "imports " + strings.TrimPrefix(imported, module+"/")
			}
		}
	}
	return why, nil
}

// ownerOf returns the package that a file belongs to. It is the package of the file's folder
// or, for files that are embedded or read by tests, of the nearest folder above it.
func ownerOf(file string, byFolder map[string]pkg) (pkg, bool) {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if p, ok := byFolder[dir]; ok {
			return p, true
		}
	}
	return pkg{}, false
}

// readers adds the packages whose tests name a file that belongs to no package, such as a
// document or a script.
func readers(file string, all []pkg, why map[string]string) error {
	name := path.Base(file)
	for _, p := range all {
		for _, source := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, source))
			if err != nil {
				return err
			}
			if strings.Contains(string(text), name) {
				why[p.ImportPath] = "its tests name " + file
				break
			}
		}
	}
	return nil
}
