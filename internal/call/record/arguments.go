package record

import "encoding/json"

// StoredArguments are the arguments of a call in the form in which events store them.
type StoredArguments struct {
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// ArgumentsBlob is set instead of Arguments if they are large.
	ArgumentsBlob   string `json:"arguments_blob,omitempty"`
	ArgumentsDigest string `json:"arguments_digest"`
	// ArgumentsSalt is set if a value was redacted. ArgumentsDigest then covers the salt's text
	// followed by the original arguments.
	ArgumentsSalt string   `json:"arguments_salt,omitempty"`
	Redactions    []string `json:"redactions,omitempty"`
}

// Arguments returns the digest of the arguments of the decided call and its salt: of the
// proposed arguments, or of the edited ones.
func (s *Story) Arguments() (digest, salt string) {
	for _, e := range s.Edits {
		if s.Decided != nil && e.CallDigest == s.Decided.CallDigest {
			digest, salt = e.ArgumentsDigest, e.ArgumentsSalt
		}
	}
	if digest == "" && s.Proposed != nil {
		return s.Proposed.ArgumentsDigest, s.Proposed.ArgumentsSalt
	}
	return digest, salt
}
