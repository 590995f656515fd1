// Package ladder lists the sandboxes of each operating system in the order in
// which they are tried, best first. It is the one package that names them all;
// package sandbox ranks the rungs and chooses one.
package ladder

import (
	"palyra/internal/config"
	"palyra/internal/sandbox"
)

// Lowest is the rung below which nothing runs.
func Lowest(p config.ProcessRunner) sandbox.Isolation {
	switch {
	case p.Fallback == config.FallbackLandlock:
		return sandbox.Landlocked
	case p.Fallback == config.FallbackUserNamespaces, p.Tier == config.TierB:
		return sandbox.UserNamespaces
	}
	return sandbox.Full
}
