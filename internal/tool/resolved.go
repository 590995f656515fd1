package tool

import "palyra/internal/canonical"

// Resolved is what a call comes to. Two calls that do the same have the same
// one however they are spelled: which of several names a path or a workspace
// has, in which order keys come, and whether a default is written down. How
// much a call returns and how long it may take are no part of it either. What
// was refused is remembered by it. An approval never binds to it: that is for
// the exact call.
type Resolved struct {
	// Act is what is done: the name of the tool, or "change" for all those that
	// change files to a content of their input.
	Act string `json:"act"`
	// Places are the files or directories that it is done to, as absolute paths
	// of the machine.
	Places []string `json:"places"`
	// What is the rest, by the tool.
	What map[string]any `json:"what"`
}

// Digest returns "sha256:<hex>" over RFC 8785 JSON.
func (r Resolved) Digest() (string, error) {
	r.Places = notNil(r.Places)
	if r.What == nil {
		r.What = map[string]any{}
	}
	return canonical.DigestOf(r)
}
