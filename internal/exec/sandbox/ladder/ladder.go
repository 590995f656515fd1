// Package ladder lists the sandbox backends of each operating system in the order in which they
// are tried, best first. Only this package names all of them; package sandbox ranks the rungs and
// chooses one.
package ladder

import (
	"runtime"

	"palyra/internal/core/config"
	"palyra/internal/exec/sandbox"
)

// Lowest returns the lowest allowed rung.
func Lowest(p config.ProcessRunner) sandbox.Isolation { return lowest(p, runtime.GOOS) }

func lowest(p config.ProcessRunner, system string) sandbox.Isolation {
	wanted := asked(p.Tier, system)
	switch {
	case wanted == sandbox.JobObject, p.Fallback == config.FallbackJobObject && system == "windows":
		return sandbox.JobObject
	case p.Fallback == config.FallbackLandlock, p.Fallback == config.FallbackJobObject:
		return sandbox.Landlocked // the lowest of Linux
	case p.Fallback == config.FallbackUserNamespaces:
		return sandbox.UserNamespaces
	}
	return wanted
}

// asked returns the best rung of a tier on a system. Windows has only Tier B.
func asked(tier, system string) sandbox.Isolation {
	switch {
	case tier == config.TierC:
		return sandbox.Full
	case system == "windows":
		return sandbox.JobObject
	}
	return sandbox.UserNamespaces
}
