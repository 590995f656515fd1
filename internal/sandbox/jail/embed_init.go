//go:build palyrainit && linux

package jail

import "embed"

// initbin holds palyra-init, built by make before this package.
//
//go:embed initbin/palyra-init
var initbin embed.FS

// Helper is palyra-init as it was built with this program.
func Helper() []byte {
	program, err := initbin.ReadFile("initbin/palyra-init")
	if err != nil {
		return nil
	}
	return program
}
