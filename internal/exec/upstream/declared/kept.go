package declared

import "time"

// Kept is the stored record of a server.
type Kept struct {
	Server  Server
	AddedBy string
	AddedAt time.Time
	// Approved holds the approved definitions, and Seen the definitions of the last inspection.
	// Both are zero until the first successful connection.
	Approved Sight
	Seen     Sight
	// SeenAt is the time of the last inspection, zero if the server was never inspected.
	SeenAt     time.Time
	ApprovedBy string
	ApprovedAt time.Time
}

// Pending returns the differences between the approved and the current definitions.
func (k Kept) Pending() []Change {
	if k.SeenAt.IsZero() {
		return nil
	}
	return Differences(k.Approved.Definitions, k.Seen.Definitions)
}

// State is the state of a server for operators.
type State struct {
	Kept

	Digest string
	// Changes wait for approval.
	Changes []Change
	// Problem is the reason why the last use of the server failed, "" if it succeeded.
	Problem, Remedy string
	// Instances counts the running instances, and Calls the calls in progress on them.
	Instances, Calls int
}

// Suspended returns the tools that cannot be called until a change is approved, each with its
// change. A change of the instructions suspends all tools.
func (s State) Suspended() map[string]Change {
	list := make(map[string]Change)
	for _, d := range s.Approved.Definitions {
		if c, is := Suspends(s.Changes, d.Name); d.Kind == KindTool && is {
			list[d.Name] = c
		}
	}
	return list
}

// Suspends returns the change that suspends a tool.
func Suspends(changes []Change, tool string) (Change, bool) {
	for _, c := range changes {
		if c.Kind == KindInstructions || c.Kind == KindTool && c.Name == tool {
			return c, true
		}
	}
	return Change{}, false
}
