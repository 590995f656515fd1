//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "palyra-init: the sandbox is not supported on this platform")
	os.Exit(125)
}
