package session

import "palyra/internal/core/access"

// Filter selects sessions; empty fields select all.
type Filter struct {
	Principal access.Principal
	// Of selects the sessions of a principal and those on its behalf.
	Of access.Principal
	// Open excludes sessions that a person ended.
	Open bool
	// PageSize 0 means 50; at most 500.
	PageSize  int
	PageToken string
}

// Ending is the end of a session by a person.
type Ending struct {
	ID     string
	Key    Key
	By     access.Principal
	Reason string
}
