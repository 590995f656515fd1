// Package must ends a test when a call fails that the rest of the test depends on. Tests check
// the returned values themselves.
package must

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Get returns the value of a call, and ends the test if the call failed:
//
//	text := must.Get(os.ReadFile(name))(t)
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends the test if err, the error of a call, is not nil.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Check fails the test if err is not nil, and lets it continue, as a clean-up requires.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Write writes a file that only its owner can read, and creates its directory.
func Write(t testing.TB, path, text string) {
	t.Helper()
	Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// Run runs fn until the test ends or stop is called, and fails the test if fn returns an error.
func Run(t testing.TB, fn func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- fn(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); Check(t, <-ended) })
	t.Cleanup(stop)
	return stop
}
