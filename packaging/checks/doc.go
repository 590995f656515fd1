// Package checks has the tests behind `make check-packages`. They install, run, upgrade and remove
// the artifacts of `make packages` in systems of their own, and print one line for each case: pass,
// fail, or "not run" with the reason. scripts/check-packages.sh prepares their inputs and runs them
// in namespaces that no mount and no process can leave.
package checks
