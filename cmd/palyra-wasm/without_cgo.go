//go:build !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "palyra-wasm was built without cgo, which its engine needs; `make build` builds it where gcc is")
	os.Exit(2)
}
