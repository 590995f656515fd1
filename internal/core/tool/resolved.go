package tool

import "palyra/internal/core/canonical"

// Resolved is what a call does, whatever its arguments look like. Two calls have
// the same Resolved when they differ only in the name of a path ("a.txt" and
// "./a.txt") or workspace, in the order of keys, in defaults that are written out,
// in how much they return or in how long they may take. A refusal is remembered by
// it, so that a client cannot ask the same again in other words. An approval never
// binds to it, but to the exact call.
type Resolved struct {
	// Act is the name of the tool, or "change" for all tools that write files from
	// their input (fs.write, fs.patch): the same content is the same act.
	Act string `json:"act"`
	// Places are the files or directories concerned, as absolute paths of the
	// machine.
	Places []string `json:"places"`
	// What holds the rest; its members depend on the tool.
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
