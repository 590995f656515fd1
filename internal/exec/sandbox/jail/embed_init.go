//go:build palyrainit && linux

package jail

import _ "embed"

// initbin is palyra-init, built by make before this package. It is not compressed: unpacking it
// would take longer than a whole sandbox, at each `palyrad sandbox exec`.
//
//go:embed initbin/palyra-init
var initbin []byte

// Helper returns palyra-init as it was built with this program. The caller MUST NOT modify it.
// palyra-init must be built first, so it is embedded under a build tag. Without the tag, `go build
// ./...` and editors work on a fresh clone, and palyrad reports that the sandbox is unavailable.
func Helper() []byte { return initbin }
