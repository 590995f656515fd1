// Package pure holds the tools that cannot have an effect: what they return is
// worked out from the input alone. Their calls may be recorded all at once,
// when they have ended, because a crash in between loses nothing that happened.
//
// Imports guarantee that: internal/archtest forbids this package every import by
// which code reaches a file, the network, a process or another part of the gateway,
// and forbids all other packages to implement tool.Pure.
package pure
