// Package dualcontrol requests approvals of changes to the gateway itself: its members, its
// devices and the policies in force. Such a question is handled by the same desk as the
// approvals of calls. The rules for who may answer are fixed in this package. No policy can
// allow or forbid an answer, because a change may replace the policies themselves.
//
// One approval permits one change. The desk binds it to the details that the approver sees, and
// it is consumed right before the change is made. The gate makes the change itself, so that the
// change does not depend on the connection of its requester. A change that waits ends when the
// requester loses the permission to make it. A change does not outlive the process: the desk
// ends its record at the next start.
package dualcontrol
