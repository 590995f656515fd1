// Package pure holds the tools without any effect: their result depends only on the input. Their
// calls may be recorded in a batch after they have ended, because a crash in between loses no
// effect.
//
// The imports guarantee this. internal/archtest forbids imports into this package that provide
// access to files, the network, processes or other parts of the gateway. It also forbids all
// other packages to implement tool.Pure.
//
// sleep has no effect either and is not here: it may last for minutes, and such a call must be on
// record while it runs.
package pure
