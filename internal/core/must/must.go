// Package must ends a test when a call fails that has to succeed for the test
// to go on. What a call returned, the test judges itself.
package must

import "testing"

// Get returns what a call returned, and ends the test when the call failed:
//
//	text := must.Get(os.ReadFile(name))(t)
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends the test when the call whose error it is given failed.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Check fails the test when the call whose error it is given failed, and lets
// it go on, as a clean-up has to.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
