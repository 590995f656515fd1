// Package jail contains the common part of the Linux backends: everything of a run except
// building its first process.
//
// A backend describes one sandbox in a Plan: the first process with its namespaces and user, the
// spec of its stages, and the layers to prove. A Machine, which holds the state of the host, the
// helper, the filters and the control groups, starts it as a Cell. The first process becomes
// palyra-init, directly or through bubblewrap. palyra-init drops capabilities and descriptors and
// then waits. Cell.Run sends it one order, compares the reported layers with the requested ones,
// lets the program start, enforces its limits, and leaves no process behind. A Cell runs at most
// one program, whether it was started for that program or prepared in advance.
package jail
