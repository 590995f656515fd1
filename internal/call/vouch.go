package call

import (
	"context"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
)

// Vouch is what people said of a call when its agent announced it by its hook. Whoever
// makes one has seen to it that the call is that one, and makes one once.
type Vouch struct {
	// Proposal is the call as it was announced.
	Proposal string
	// Answer is what its decision was made with.
	Answer approval.Answer
	// CallDigest is what the call would have been when it was announced, with the bytes of
	// the files that it names; "" where it could not be planned.
	CallDigest string
}

// join takes the answer of the announced call, where policy is content with it: with
// who said yes, and with what they proved, and the call is to the byte the one that was
// announced. It is for the call alone, and tried once.
func (a *authorization) join() bool {
	if a.sub.Vouch == nil || a.joined || a.ran != nil || a.request.Commit != nil || a.request.Injection != nil {
		return false
	}
	a.joined = true
	if a.sub.Vouch.CallDigest != a.digest {
		return false
	}
	answer, ok := a.sub.Vouch.Answer.Join(a.sub.Vouch.Proposal, a.digest)
	if a.answer = answer; ok && a.enough(a.request) {
		return true
	}
	a.answer = approval.Answer{}
	return false
}

// CallDigest is the digest of what a call would be, without a decision about it. What
// planning read is journaled (Config.Looked), and the digest is for nobody outside.
func (p *Pipeline) CallDigest(ctx context.Context, s Submission) (string, error) {
	c, err := p.planned(ctx, &s)
	if c != nil {
		c.look(access.Principal{})
	}
	if err != nil {
		return "", err
	}
	return c.digest, nil
}
