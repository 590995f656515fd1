// Package origin marks external resources of a daemon, such as control groups and directories
// of runs. A later daemon can then distinguish the remains of a dead daemon from resources of a
// running one. A mark is "<pid>-<start time>", because the kernel reuses the pid of a dead
// process.
package origin
