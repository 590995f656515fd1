package call

import (
	"palyra/internal/core/access"
)

// Quota bounds the bytes that callers bring and leave behind.
type Quota interface {
	// Begin counts n bytes of input in, until end is called, or refuses them with
	// QUOTA_EXCEEDED. It counts its refusals itself.
	Begin(c access.Caller, p access.Precedence, n int64) (end func(), err error)
}

// bring counts the input of a submission in.
func (p *Pipeline) bring(s *Submission) (end func(), err error) {
	if p.Quota == nil {
		return func() {}, nil
	}
	return p.Quota.Begin(s.Caller, s.Precedence, int64(len(s.Input)))
}
