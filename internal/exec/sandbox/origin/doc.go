// Package origin names what a daemon makes outside of its own process, such as
// control groups and directories of runs, so that a later daemon can tell the
// leftovers of a dead one from what belongs to another that still runs. A mark is
// "<pid>-<start time>", since the kernel gives the pid of a dead process to
// another one.
package origin
