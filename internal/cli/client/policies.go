package client

import (
	"fmt"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/text"
)

// PolicyDirectory describes the gateway's policy directory, with the number of active policies
// in addition to the built-in ones. If the directory is not in force, it includes the reason.
func PolicyDirectory(d *palyrav1.PolicyDirectory) string {
	count := text.Plural(int(d.GetPolicies()), "policy") + " active in addition to the built-in ones"
	files := text.Plural(int(d.GetFiles()), "file")
	switch {
	case d.GetInForce():
		return fmt.Sprintf("%s, from %s (%s)", count, d.GetPath(), files)
	case d.GetPath() == "":
		return fmt.Sprintf("%s: %s", count, d.GetProblem())
	}
	return fmt.Sprintf("%s; %s (%s) is not in force: %s", count, d.GetPath(), files, d.GetProblem())
}
