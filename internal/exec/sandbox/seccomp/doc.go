// Package seccomp assembles the system call filter that the helper installs last, as a classic
// BPF program. It is built in Go instead of libseccomp, so that no cgo is needed and the same
// program can be run in a test (golang.org/x/net/bpf.VM). Other platforms have no such filter.
package seccomp
