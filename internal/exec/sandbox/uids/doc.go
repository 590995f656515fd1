// Package uids finds user IDs for the sandboxes of a palyrad that is root. The IDs must belong to
// no account, no container and no other palyrad of the machine. Otherwise a program would share the
// limits, signals and files of another one.
package uids
