// Package ladder lists the sandboxes of each operating system in the order in
// which they are tried, best first. It is the one package that names them all;
// package sandbox ranks the rungs and chooses one.
package ladder

import (
	"runtime"

	"palyra/internal/core/config"
	"palyra/internal/exec/sandbox"
)

// Lowest is the rung below which nothing runs.
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

// asked is the best rung of a tier on a system. Windows has a Tier B alone.
func asked(tier, system string) sandbox.Isolation {
	switch {
	case tier == config.TierC:
		return sandbox.Full
	case system == "windows":
		return sandbox.JobObject
	}
	return sandbox.UserNamespaces
}
