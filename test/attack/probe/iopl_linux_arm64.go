package main

import "golang.org/x/sys/unix"

// iopl is of x86 alone.
func iopl([]string) (string, error) { return "", unix.ENOSYS }
