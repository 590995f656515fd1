// Package tpmtest runs software TPMs (swtpm) for tests.
package tpmtest
