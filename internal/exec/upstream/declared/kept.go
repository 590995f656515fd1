package declared

import "time"

// Kept is what the store has of a server.
type Kept struct {
	Server  Server
	AddedBy string
	AddedAt time.Time
	// Approved is what its tools are made of, Seen what it said last. Both are zero
	// until it was reached for the first time.
	Approved Sight
	Seen     Sight
	// SeenAt is when it was looked at last, zero for never.
	SeenAt     time.Time
	ApprovedBy string
	ApprovedAt time.Time
}

// Pending are the differences between what was approved and what is said now.
func (k Kept) Pending() []Change {
	if k.SeenAt.IsZero() {
		return nil
	}
	return Differences(k.Approved.Definitions, k.Seen.Definitions)
}

// State is a server as operators see it.
type State struct {
	Kept

	Digest string
	// Changes wait for somebody to approve them.
	Changes []Change
	// Problem is why it was of no use when it was needed last, "" if it was.
	Problem, Remedy string
	// Instances are those that there are, and Calls what is under way on them.
	Instances, Calls int
}

// Suspended are the tools of the server that nobody can call until a change is approved,
// each with the change. What the instructions say is about all tools.
func (s State) Suspended() map[string]Change {
	list := make(map[string]Change)
	for _, d := range s.Approved.Definitions {
		if c, is := Suspends(s.Changes, d.Name); d.Kind == KindTool && is {
			list[d.Name] = c
		}
	}
	return list
}

// Suspends finds the change for which a tool cannot be called.
func Suspends(changes []Change, tool string) (Change, bool) {
	for _, c := range changes {
		if c.Kind == KindInstructions || c.Kind == KindTool && c.Name == tool {
			return c, true
		}
	}
	return Change{}, false
}
