// Package tpmtest runs TPMs in software (swtpm) for tests.
package tpmtest
