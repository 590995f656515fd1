// Package approval requests approvals for calls and stores the answers.
//
// A Record is a request about one exact call and collects votes. A Grant is a standing approval
// that votes created. The Desk holds waiting calls, accepts votes and enforces deadlines. An
// approval does not override policy: after every vote the desk calls a Judge, which evaluates
// policy with the votes as facts.
//
// Every change of a record's state goes through one function, transition. It compares state and
// version, and writes the record and its journal event in one unit of the store's writer.
// Exactly one of several concurrent changes succeeds; the others return an error that names the
// actor of the successful one.
//
// The package does not depend on policy, the journal or SQL: Judge and Store are its interfaces
// to them.
//
// A requester's reason is a field of the request and not an argument. A tool would receive an
// argument, and the call digest would cover it, so that no grant would cover a second call.
// Waiting calls with different reasons are different requests. Grants and remembered denials
// ignore the reason, because a requester could repeat a call with other words. Policy reads the
// text, which is unverified: a rule may deny by it and should allow nothing by it alone.
package approval
