package policyadmin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"palyra/internal/journal"
	"palyra/internal/policy"
	"palyra/internal/reason"
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

// Watch reloads when the directory changes, when members change, and when it
// is told to. Several changes at once are one reload.
func (p *Admin) Watch(ctx context.Context, reload <-chan struct{}) error {
	files, stop, err := watchDir(p.use.Settings.Policy.Dir)
	if err != nil {
		p.use.Log.WarnContext(ctx, "the policy directory is not watched; use `palyra policy reload`", slog.String("error", err.Error()))
	}
	defer stop()
	return p.follow(ctx, files, reload)
}

// follow reloads until ctx ends. An error of the watcher, such as an overflow,
// may have swallowed changes, so that it counts as one.
func (p *Admin) follow(ctx context.Context, files dirChanges, reload <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
			p.report(ctx, p.Rebuild(ctx, journal.Daemon))
		case <-reload:
			_, err := p.reload(ctx, journal.Daemon)
			p.report(ctx, err)
		case err := <-files.errors:
			p.missed(ctx, err)
			if !p.settle(ctx, files) {
				return nil
			}
			p.report(ctx, p.directoryChanged(ctx))
		case <-files.events:
			if !p.settle(ctx, files) {
				return nil
			}
			p.report(ctx, p.directoryChanged(ctx))
		}
	}
}

func (p *Admin) report(ctx context.Context, err error) {
	if err != nil {
		p.use.Log.ErrorContext(ctx, "policy did not load; the running set stays", slog.String("error", err.Error()))
	}
}

func (p *Admin) missed(ctx context.Context, err error) {
	p.use.Log.WarnContext(ctx, "watching the policy directory failed; it is read again", slog.String("error", err.Error()))
}

// settle waits until the directory has been quiet for a moment: an editor
// writes a file in several steps.
func (p *Admin) settle(ctx context.Context, files dirChanges) bool {
	const quiet = 100 * time.Millisecond
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-files.events:
			timer.Reset(quiet)
		case err := <-files.errors:
			p.missed(ctx, err)
			timer.Reset(quiet)
		case <-timer.C:
			return true
		}
	}
}

// dirChanges is what a watcher of a directory says. Both channels have to be
// read: the watcher waits for its reader.
type dirChanges struct {
	events <-chan fsnotify.Event
	errors <-chan error
}

// watchDir returns the changes of a directory and of the tests below it; none
// for "".
func watchDir(dir string) (dirChanges, func(), error) {
	if dir == "" {
		return dirChanges{}, func() {}, nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return dirChanges{}, func() {}, fmt.Errorf("watching %s: %w", dir, err)
	}
	stop := func() { _ = w.Close() }
	if err := w.Add(dir); err != nil {
		stop()
		return dirChanges{}, func() {}, fmt.Errorf("watching %s: %w", dir, err)
	}
	if err := w.Add(filepath.Join(dir, testsDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		stop()
		return dirChanges{}, func() {}, fmt.Errorf("watching the tests in %s: %w", dir, err)
	}
	return dirChanges{w.Events, w.Errors}, stop, nil
}

// ReadDir reads the *.cedar files of a directory and its tests, each in
// the order of their names.
func ReadDir(dir string) (sources, tests []policy.Source, err error) {
	if dir == "" {
		return nil, nil, nil
	}
	if sources, err = readFiles(dir, "", policySuffix); err != nil {
		return nil, nil, err
	}
	if tests, err = readFiles(dir, "", testSuffix); err != nil {
		return nil, nil, err
	}
	apart, err := readFiles(filepath.Join(dir, testsDir), testsDir+"/", testSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		apart, err = nil, nil
	}
	return sources, append(tests, apart...), err
}

// readFiles reads the files of a directory whose names end so. Their names
// begin with prefix.
func readFiles(dir, prefix, suffix string) ([]policy.Source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, reason.Errorf(reason.PolicyInvalid, "reading the policy directory: %w", err).
			WithRemedy("Make the directory readable, or correct policy.dir.")
	}
	var sources []policy.Source
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := readPolicy(filepath.Join(dir, e.Name()))
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
		return "", reason.Errorf(reason.PolicyInvalid, "reading a policy file: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", reason.Errorf(reason.PolicyInvalid, "reading a policy file: %w", err)
	}
	return string(text), nil
}
