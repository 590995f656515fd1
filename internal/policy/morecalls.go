package policy

// Whether a session may make more calls than max_calls_per_session is no
// question that a policy answers: it takes one person who may decide approvals
// of that requester, whatever the call that came upon the bound would take
// itself. Who may decide is policy's (approval.decide), so that nobody answers
// for themselves where that is forbidden.

// JudgeMoreCalls judges the votes on letting the caller of a request make more
// calls.
func (s *Set) JudgeMoreCalls(r Request, a Approval) Judgement {
	if len(s.ballots(a, s.dir.requester(r.Caller))) > 0 {
		return Judgement{Allowed: true}
	}
	return Judgement{Missing: "a person who may decide approvals"}
}

// SomebodyDecides reports whether anybody could let the caller make more calls.
func (s *Set) SomebodyDecides(r Request, severity string) bool {
	return len(s.electorate(s.dir.requester(r.Caller), severity).ballots) > 0
}
