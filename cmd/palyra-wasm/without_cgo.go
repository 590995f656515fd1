//go:build !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "palyra-wasm was built without cgo, which its engine requires; `make build` builds it if gcc is installed")
	os.Exit(2)
}
