// Package cgroup bounds and ends whole trees of processes with the control
// groups of Linux (cgroups(7)). It finds the best rung of a ladder by trying:
// the unified hierarchy with its controllers, a hybrid machine where version 1
// limits and the unified hierarchy kills, or nothing but limits per process.
//
// Every group of a run lies below the daemon's own group, so that what bounds
// the daemon bounds its sandboxes, too.
package cgroup

// The rungs of the ladder, best first.
const (
	V2     = "cgroup_v2"
	V1     = "cgroup_v1"
	Rlimit = "rlimit"
)
