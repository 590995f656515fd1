// Package jailtest is the set-up that tests of Linux sandboxes share:
// palyra-init as built for the run, workspaces, specs, and daemons of ordinary
// users.
package jailtest
