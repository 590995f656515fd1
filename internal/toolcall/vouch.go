package toolcall

import "palyra/internal/approval"

// Vouch is what people said of a call when its agent announced it by its hook. Whoever
// makes one has seen to it that the call is that one, and makes one once.
type Vouch struct {
	// Proposal is the call as it was announced.
	Proposal string
	// Answer is what its decision was made with.
	Answer approval.Answer
}

// join takes the answer of the announced call, where policy is content with it: with
// who said yes, and with what they proved. It is for the call alone, and tried once.
func (a *authorization) join() bool {
	if a.sub.Vouch == nil || a.joined || a.ran != nil || a.request.Commit != nil || a.request.Injection != nil {
		return false
	}
	a.joined = true
	answer, ok := a.sub.Vouch.Answer.Join(a.sub.Vouch.Proposal, a.digest)
	if a.answer = answer; ok && a.enough(a.request) {
		return true
	}
	a.answer = approval.Answer{}
	return false
}
