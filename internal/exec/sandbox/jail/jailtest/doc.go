// Package jailtest provides the common fixtures for tests of Linux sandboxes: palyra-init built
// for the test run, workspaces, specs, and daemons of ordinary users.
package jailtest
