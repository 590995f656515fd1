// Package gatewaychange asks people about the gateway itself: who its members and
// devices are, and what is in force. Such a question is an approval like that of a
// call, on the same desk, but whose answer counts stands here, in code: no policy
// can forbid or allow it, since a policy is one of the things that are asked about.
//
// One yes is one change. The desk binds it to the details that people were shown,
// and whoever asked uses it up right before the change is made.
package gatewaychange
