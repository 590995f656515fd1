// Package jail contains the common part of the Linux backends: all steps of a run except
// building its first process.
//
// A backend describes one sandbox in a Plan: the first process with its namespaces and user,
// the spec of its stages, and the layers to prove. A Machine holds the state of the host, the
// helper, the filters and the control groups. It starts the sandbox as a Cell. The first
// process becomes palyra-init, directly or through bubblewrap. palyra-init drops capabilities
// and descriptors and then waits. Cell.Run sends it one order, compares the reported layers
// with the requested ones, and starts the program. It enforces the limits of the program, and
// leaves no process behind. A Cell runs at most one program, whether it was started for that
// program or prepared in advance.
package jail
