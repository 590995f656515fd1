//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "the sandbox is that of Linux")
	os.Exit(2)
}
