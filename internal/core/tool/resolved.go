package tool

import "palyra/internal/core/canonical"

// Resolved identifies the effect of a call independently of the form of its arguments. Two
// calls have the same Resolved if they differ only in the name of a path ("a.txt" and
// "./a.txt") or workspace, the order of keys, explicit defaults, the amount returned, or the
// time limit. The gateway stores a refusal by its Resolved, so that a client cannot repeat the
// request in another form. An approval binds to the exact call, never to its Resolved.
type Resolved struct {
	// Act is the name of the tool, or "change" for all tools that write files from their input
	// (fs.write, fs.patch). Writing the same content is then the same act.
	Act string `json:"act"`
	// Places are the affected files or directories, as absolute paths of the machine.
	Places []string `json:"places"`
	// The other properties of the effect; the members depend on the tool.
	What map[string]any `json:"what"`
}

// Digest returns "sha256:<hex>" over RFC 8785 JSON.
func (r Resolved) Digest() (string, error) {
	r.Places = canonical.List(r.Places)
	if r.What == nil {
		r.What = map[string]any{}
	}
	return canonical.DigestOf(r)
}
