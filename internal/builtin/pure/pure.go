// Package pure holds the tools that cannot have an effect: what they return is
// worked out from the input alone. Their calls may be recorded all at once,
// when they have ended, because a crash in between loses nothing that happened.
//
// That they cannot is no promise but a matter of imports: internal/archtest
// keeps everything out of this package by which code reaches a file, the
// network, a process or another part of the gateway, and lets nobody else be a
// dispatch.Pure.
package pure
