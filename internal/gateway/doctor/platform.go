package doctor

import "fmt"

// untested are the systems for which palyrad is built but on whose hardware it has not been tested,
// with the isolation that they provide to programs.
var untested = map[string]struct{ name, isolation string }{
	"darwin":  {"macOS", "programs run in Tier C under a Seatbelt profile, without copies of workspaces, and WebAssembly guests do not run"},
	"windows": {"Windows", "programs run in Tier B in a job object, which isolates neither files nor the network, and WebAssembly guests do not run"},
}

// platformFinding names a system on which palyrad has not been tested.
func platformFinding(system, architecture string) finding {
	of, is := untested[system]
	if !is {
		return fine(system + "/" + architecture)
	}
	return doubtful(fmt.Sprintf("palyrad is not tested on hardware with %s/%s: %s", of.name, architecture, of.isolation),
		"Test your configuration before you depend on it. See docs/install.md.")
}
