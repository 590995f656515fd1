// Package honest runs the tools of a developer's day in the sandbox and checks that each has the
// effect that it has outside.
package honest
