// Package jail holds what the Linux backends share: everything of a run but
// the way its first process is built.
//
// A backend describes one sandbox in a Plan: the first process and the
// namespaces and user it starts in, the spec of its stages, and the layers that
// have to be proved. A Machine, which knows the host, the helper, the filters
// and the control groups, starts it as a Cell. The first process becomes
// palyra-init, at once or by way of bubblewrap. palyra-init gives up capabilities
// and descriptors and then waits. Cell.Run sends it one order, compares what it
// reads back with what was asked for, lets the program start, bounds it, and
// leaves no process behind. A Cell runs one program at most, whether it was
// started for that program or long before.
package jail
