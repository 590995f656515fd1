// Package dualcontrol asks people about the gateway itself: who its members and
// devices are, and what is in force. Such a question is an approval like that of a
// call, on the same desk, but whose answer counts stands here, in code: no policy
// can forbid or allow it, since a policy is one of the things that are asked about.
//
// One yes is one change. The desk binds it to the details that people were shown, and
// it is used up right before the change is made. The gate makes the change itself, so
// that it does not depend on the connection of its requester; it ends a change that waits
// when the requester may not make it any more. A change does not outlive the process:
// the desk ends its record at the next start.
package dualcontrol
