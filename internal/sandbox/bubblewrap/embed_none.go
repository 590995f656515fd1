//go:build !palyrainit && linux

package bubblewrap

// embeddedHelper is nil in a plain `go build`.
func embeddedHelper() []byte { return nil }
