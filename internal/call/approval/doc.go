// Package approval asks people about calls and remembers what they said.
//
// A Record asks about one exact call and collects votes; a Grant is a standing
// yes that a vote minted; the Desk is where calls wait, people answer and time
// runs out. An approval is no override of policy: after every vote the desk
// asks a Judge, which evaluates policy with the votes as facts.
//
// Every change of a record's state goes through one function, transition,
// which compares state and version and writes the record and its journal event
// in one unit of the store's writer. When several things happen at once
// exactly one wins, and the others are told who did.
//
// The package knows neither policy nor the journal nor SQL: Judge and Store
// are the interfaces it needs of them.
package approval
