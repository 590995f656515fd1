//go:build palyrainit && linux

package jail

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
)

// initbin contains palyra-init, built and compressed by make before this package.
//
//go:embed initbin/palyra-init.gz
var initbin embed.FS

// Helper returns palyra-init as it was built with this program. It unpacks the program for each
// Machine, because Machines are few and keep the program only in a memory file. palyra-init
// must be built first, so it is embedded under a build tag. Without the tag, `go build ./...`
// and editors work on a fresh clone, and palyrad reports that the sandbox is unavailable.
func Helper() ([]byte, error) {
	packed, err := initbin.ReadFile("initbin/palyra-init.gz")
	if err != nil {
		return nil, fmt.Errorf("finding palyra-init: %w", err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpacking palyra-init: %w", err)
	}
	program, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpacking palyra-init: %w", err)
	}
	return program, nil
}
