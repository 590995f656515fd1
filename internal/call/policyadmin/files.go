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
	// testsDir is a subdirectory of policy.dir for tests that are not stored next to the
	// policies.
	testsDir = "tests"
)

// Directory is the state of the policy directory in comparison with the set in force.
type Directory struct {
	// Path is policy.dir; "" if it is not configured.
	Path string
	// Present is true if it exists.
	Present bool
	// Files is the current number of policy files in it.
	Files int
	// Policies is the number of policies in force in addition to the built-in ones.
	Policies int
	// InForce is true if its files are in force.
	InForce bool
	// Problem is the reason why they are not in force, with the next step.
	Problem string
}

// Directory compares the current policy directory with the set in force.
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

// outOfForce returns the reason why the files of the directory are not in force, or "". The
// caller holds p.mu.
func (p *Admin) outOfForce(d Directory, sources []policy.Source, err error) string {
	switch {
	case d.Path == "":
		return "policy.dir is empty: only the built-in policies are in force"
	case p.running.activated:
		return "an activated version is in force instead; run `palyra policy reload` to return to the directory"
	case err != nil:
		return err.Error() + ". " + reason.Known(err, reason.PolicyInvalid).NextStep()
	case !d.Present && len(p.running.sources) > 0:
		return "it has disappeared, and the previous policies stay in force; create it again, empty if only the built-in policies should apply"
	case !d.Present:
		return "it does not exist; create it with `palyra policy init --profile laptop`"
	case !slices.Equal(sources, p.running.sources) && p.takesTwo():
		return "it is a proposal: its files are not in force and need a second person; request the approval with `palyra policy reload`"
	case !slices.Equal(sources, p.running.sources):
		return "its files are not in force; run `palyra policy reload` to see the reason"
	}
	return ""
}

// countFiles counts the policy files of a directory, including files that are not read because
// other users could change them; 0 if they cannot be listed.
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

// isPolicy reports whether a file with that name has the suffix and is read.
func isPolicy(name, suffix string) bool {
	return strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, ".")
}

// isThere reports whether the path exists. An inaccessible path or a dangling link counts as
// existing, so that reading it returns the error.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// own reads the policy directory for a set that is to come into force. A directory that never
// existed has no policies. A directory that disappeared is an error, because moving it must not end
// its rules. The caller holds p.mu.
func (p *Admin) own() (sources, tests []policy.Source, err error) {
	dir := p.use.Settings.Policy.Dir
	if dir != "" && !isThere(dir) && len(p.running.sources) > 0 {
		return nil, nil, reason.Errorf(reason.PolicyInvalid, "the policy directory %s has disappeared; the previous policies stay in force", dir).
			WithRemedy("Create it again, empty if only the built-in policies should apply, then run `palyra policy reload`.")
	}
	return p.read()
}

// read reads the policy directory, unless other users could change its content.
func (p *Admin) read() (sources, tests []policy.Source, err error) {
	return ReadTrusted(p.use.Settings)
}

// ReadTrusted reads the policy directory of a configuration, as ReadDir. It returns
// trusted.ErrUntrusted if users other than root and the user of this process can change the
// directory or a file in it. The error is also returned if the directory is in a workspace.
func ReadTrusted(cfg *config.Config) (sources, tests []policy.Source, err error) {
	workspaces := cfg.WorkspacePaths()
	return readDir(cfg.Policy.Dir, func(path string) error {
		_, err := trusted.Check(path, workspaces)
		return err
	})
}

// ReadDir reads the *.cedar files of a directory and its tests, each ordered by name. A directory
// that does not exist has no files.
func ReadDir(dir string) (sources, tests []policy.Source, err error) {
	return readDir(dir, func(string) error { return nil })
}

// readDir is ReadDir with a check of the directory and of each file in it.
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

// readFiles reads the files of a directory whose names have a suffix. It adds the prefix to their
// names.
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
