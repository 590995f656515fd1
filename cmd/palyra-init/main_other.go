//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "palyra-init: this platform has no such sandbox")
	os.Exit(125)
}
