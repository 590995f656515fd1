// Package jail holds what the Linux backends share: everything of a run but
// the way its first process is built.
//
// A backend describes one sandbox in a Plan: the first process and the
// namespaces and user it starts in, the spec of its stages, and the layers that
// have to be proved. A Machine, which knows the host, the helper, the filters
// and the control groups, starts it as a Cell. The first process becomes
// palyra-init sooner or later, which gives up what no program needs and then
// waits. Cell.Run sends it one order, judges what it reads back, opens the
// gate, bounds the program, and leaves no process behind. A Cell runs one
// program at most, whether it was started for it or long before.
package jail
