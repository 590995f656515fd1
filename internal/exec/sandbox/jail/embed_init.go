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

// Helper returns palyra-init as it was built with this program. It is unpacked for each Machine;
// Machines are few and keep it only in a memory file. It is embedded under a build tag because it
// must be built first: without the tag, `go build ./...` and editors work on a fresh clone, and
// palyrad reports that the sandbox is unavailable.
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
