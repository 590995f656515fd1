package policyadmin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
