package call

// UseOldFacts lets calls run on the verdict that was made with the facts of
// their proposal.
func (p *Pipeline) UseOldFacts() { p.control.oldFacts = true }

// CountLater judges calls by fresh facts, and counts them without the lock and
// after between.
func (p *Pipeline) CountLater(between func()) { p.control.between = between }

// CutOff ends all calls as a stop does whose time is over.
func (p *Pipeline) CutOff() { p.cutOff() }
