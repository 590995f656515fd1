// Package systemd replaces the manager of a user's services in tests: a systemctl for the units of
// palyrad in the user's directory. It holds the port of the socket's unit while palyrad does not
// run. Unlike systemd it does not start palyrad for a connection. Tests run it as a separate
// program.
package systemd

// Dir is the environment variable that names the directory of the replacement. The directory
// contains the received commands (log), palyrad's log, and the processes of the holder of the
// socket and of the service.
const Dir = "TEST_PALYRA_SYSTEMD"
