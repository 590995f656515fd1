package call

// UseOldFacts makes calls run on the verdict about the facts of their proposal.
func (p *Pipeline) UseOldFacts() { p.control.oldFacts = true }

// CountLater decides calls by fresh facts, but counts them without the lock, after between
// returned.
func (p *Pipeline) CountLater(between func()) { p.control.between = between }

// CutOff ends all calls, like a stop whose grace period is over.
func (p *Pipeline) CutOff() { p.underWay.cutOff() }
