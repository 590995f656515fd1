//go:build palyrainit && linux

package bubblewrap

import "embed"

// initbin holds palyra-init, built by make before this package.
//
//go:embed initbin/palyra-init
var initbin embed.FS

func embeddedHelper() []byte {
	program, err := initbin.ReadFile("initbin/palyra-init")
	if err != nil {
		return nil
	}
	return program
}
