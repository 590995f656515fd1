// Package origin names what a daemon makes outside of its own process, such as
// control groups and directories of runs, so that a later daemon can tell the
// leftovers of a dead one from what belongs to a living neighbour. A mark is
// "<pid>-<start time>": the number alone is used again.
package origin
