package policyadmin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/call/policy"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/trusted"
)

const (
	// maxPolicyFile is the largest policy file in bytes.
	maxPolicyFile = 1 << 20
	policySuffix  = ".cedar"
	testSuffix    = ".test.yaml"
	// testsDir is a directory below policy.dir for tests that do not lie beside
	// the policies.
	testsDir = "tests"
)

// Directory is what stands in the policy directory, and what of it counts.
type Directory struct {
	// Path is policy.dir; "" means that there is none.
	Path string
	// Present says that it is there.
	Present bool
	// Files are the policy files in it as it is now.
	Files int
	// Policies are those in force beside the built-in ones.
	Policies int
	// InForce says that its files are those in force.
	InForce bool
	// Problem says why they are not, and what to do.
	Problem string
}

// Directory compares the policy directory as it is now with what is in force.
func (p *Admin) Directory() Directory {
	d := Directory{Path: p.use.Settings.Policy.Dir}
	sources, _, err := p.read()
	d.Present, d.Files = d.Path != "" && isThere(d.Path), countFiles(d.Path)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.use.Engine.Current().View().Policies() {
		if !one.Builtin {
			d.Policies++
		}
	}
	d.Problem = p.outOfForce(d, sources, err)
	d.InForce = d.Problem == ""
	return d
}

// outOfForce says why the files of the directory are not those in force; "" when
// they are. The caller holds p.mu.
func (p *Admin) outOfForce(d Directory, sources []policy.Source, err error) string {
	switch {
	case d.Path == "":
		return "policy.dir is empty, so that the built-in policies count alone"
	case p.running.activated:
		return "an activated version counts in its place; `palyra policy reload` returns to the directory"
	case err != nil:
		return err.Error() + ". " + reason.Known(err, reason.PolicyInvalid).NextStep()
	case !d.Present && len(p.running.sources) > 0:
		return "it is gone, and what was in force stays; make it again, empty if the built-in policies are to count alone"
	case !d.Present:
		return "it is not there; `palyra policy init --profile laptop` makes it"
	case !slices.Equal(sources, p.running.sources) && p.takesTwo():
		return "it is a proposal: its files are not those in force, and take a second person; `palyra policy reload` asks for it"
	case !slices.Equal(sources, p.running.sources):
		return "its files are not those in force; `palyra policy reload` says why"
	}
	return ""
}

// countFiles counts the policy files of a directory, also where they are not read because
// others could change them; 0 where they cannot be listed.
func countFiles(dir string) (n int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if isPolicy(e.Name(), policySuffix) {
			n++
		}
	}
	return n
}

// isPolicy reports whether a file of that name is read for its suffix.
func isPolicy(name, suffix string) bool {
	return strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, ".")
}

// isThere reports whether anything stands there. What cannot be looked at, or
// is a link to nowhere, does, so that reading it says what is wrong.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// own reads the policy directory for a set that is to come into force. One that
// never was there has no policies; one that is gone is an error, because its
// rules must not end by somebody moving it. The caller holds p.mu.
func (p *Admin) own() (sources, tests []policy.Source, err error) {
	dir := p.use.Settings.Policy.Dir
	if dir != "" && !isThere(dir) && len(p.running.sources) > 0 {
		return nil, nil, reason.Errorf(reason.PolicyInvalid, "the policy directory %s is gone; what was in force stays", dir).
			WithRemedy("Make it again, empty if the built-in policies are to count alone, then `palyra policy reload`.")
	}
	return p.read()
}

// read reads the policy directory, unless others could change what stands there.
func (p *Admin) read() (sources, tests []policy.Source, err error) {
	return ReadTrusted(p.use.Settings)
}

// ReadTrusted reads the policy directory of a configuration, as ReadDir, unless somebody
// could change it, or a file in it, who is neither root nor the user of this process, or it
// lies in a workspace. That is trusted.ErrUntrusted.
func ReadTrusted(cfg *config.Config) (sources, tests []policy.Source, err error) {
	workspaces := cfg.WorkspacePaths()
	return readDir(cfg.Policy.Dir, func(path string) error {
		_, err := trusted.Check(path, workspaces)
		return err
	})
}

// ReadDir reads the *.cedar files of a directory and its tests, each in
// the order of their names. One that is not there has none.
func ReadDir(dir string) (sources, tests []policy.Source, err error) {
	return readDir(dir, func(string) error { return nil })
}

// readDir is ReadDir for what check does not refuse: the directory, and each file in it.
func readDir(dir string, check func(path string) error) (sources, tests []policy.Source, err error) {
	if dir == "" || !isThere(dir) {
		return nil, nil, nil
	}
	if err := check(dir); err != nil {
		return nil, nil, err
	}
	if sources, err = readFiles(dir, "", policySuffix, check); err != nil {
		return nil, nil, err
	}
	if tests, err = readFiles(dir, "", testSuffix, check); err != nil {
		return nil, nil, err
	}
	apart, err := readFiles(filepath.Join(dir, testsDir), testsDir+"/", testSuffix, check)
	if errors.Is(err, fs.ErrNotExist) {
		apart, err = nil, nil
	}
	return sources, append(tests, apart...), err
}

// readFiles reads the files of a directory whose names end so. Their names
// begin with prefix.
func readFiles(dir, prefix, suffix string, check func(path string) error) ([]policy.Source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, reason.Errorf(reason.PolicyInvalid, "reading the policy directory: %w", err).
			WithRemedy("Make the directory readable, or correct policy.dir.")
	}
	var sources []policy.Source
	for _, e := range entries {
		if !isPolicy(e.Name(), suffix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := check(path); err != nil {
			return nil, err
		}
		text, err := readPolicy(path)
		if err != nil {
			return nil, err
		}
		sources = append(sources, policy.Source{Name: prefix + e.Name(), Text: text})
	}
	return sources, nil
}

func readPolicy(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxPolicyFile) {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file of at most 1 MiB")}
	}
	if err != nil {
		return "", reason.Errorf(reason.PolicyInvalid, "reading a policy file: %w", err).WithRemedy("Correct the file %s, or remove it.", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", reason.Errorf(reason.PolicyInvalid, "reading a policy file: %w", err)
	}
	return string(text), nil
}
