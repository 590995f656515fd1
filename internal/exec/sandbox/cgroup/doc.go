// Package cgroup limits and ends whole process trees with the control groups of Linux
// (cgroups(7)). It finds the best available level by trial. The levels are the unified
// hierarchy with its controllers, a hybrid machine where version 1 limits and the unified
// hierarchy kills, and limits per process only.
//
// Every group of a run is below the daemon's own group, so that the limits of the daemon also
// apply to its sandboxes.
package cgroup

// The levels, best first.
const (
	V2     = "cgroup_v2"
	V1     = "cgroup_v1"
	Rlimit = "rlimit"
)
