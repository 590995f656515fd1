// Package systemd stands in for the manager of a user's services: a systemctl that behaves,
// for the units of palyrad in the user's directory. It holds the port of the socket's unit
// while palyrad does not run; unlike systemd it does not start palyrad for who connects
// meanwhile. Tests run it as a program of its own.
package systemd

// Dir is the environment variable that names the directory of the stand-in: the commands
// that were given (log), palyrad's log, and the processes of the holder of the socket and of
// the service.
const Dir = "TEST_PALYRA_SYSTEMD"
