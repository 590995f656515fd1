package policy

import (
	"cmp"
	"slices"

	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// A call that changes several files is evaluated once for each file, with context.path naming
// the file, and the strictest verdict counts. Otherwise a call could evade a rule about a path
// by naming a second file.

// PerPath returns the request once for each file that the call changes, and the request itself
// if there is at most one. A commit is decided as a whole: its paths are a set in the context.
// For an edited call, each request is repeated with every editor as the caller; approvers must
// be independent of all requesters.
func (r Request) PerPath() []Request {
	if len(r.Editors) == 0 {
		return r.perPath()
	}
	askers := append([]access.Caller{r.Caller}, r.Editors...)
	r.Editors = nil
	var list []Request
	for i, asker := range askers {
		r.Caller, r.Beside = asker, slices.Delete(slices.Clone(askers), i, i+1)
		list = append(list, r.perPath()...)
	}
	return list
}

func (r Request) perPath() []Request {
	if r.alone() {
		return []Request{r}
	}
	list := make([]Request, len(r.Facts.Paths))
	for i, path := range r.Facts.Paths {
		list[i] = r
		list[i].Facts.Path, list[i].Facts.PathFolded = path, text.FoldCase(path)
	}
	return list
}

// alone reports whether PerPath returns only the request itself.
func (r *Request) alone() bool {
	return len(r.Editors) == 0 && (len(r.Facts.Paths) == 0 || r.Commit != nil || r.Injection != nil)
}

// foldedPath returns context.path_folded, which exists if and only if context.path does: calls
// that were journaled by earlier versions have only a path.
func foldedPath(f *tool.Facts) any {
	switch {
	case f.Path == "":
		return nil
	case f.PathFolded == "":
		folded := text.FoldCase(f.Path)
		return &folded
	default:
		return &f.PathFolded
	}
}

// evaluate decides a call.
func (e *evaluator) evaluate(r *Request, grants []Grant) Verdict {
	if r.alone() {
		return e.evaluateOne(r, grants)
	}
	list := r.PerPath() // all of them must be allowed together
	if len(list) == 1 {
		return e.evaluateOne(&list[0], grants)
	}
	verdicts := e.evaluateAll(list, grants)
	for _, v := range verdicts {
		if v.effect == Deny {
			return v
		}
	}
	if v, ok := allAllow(verdicts); ok {
		return v
	}
	// One grant must cover every file.
	for _, g := range grants {
		if v, ok := allAllow(e.evaluateAll(list, []Grant{g})); ok {
			return v
		}
	}
	return strictest(e.evaluateAll(list, nil))
}

// evaluateOne decides a call that changes at most one file.
func (e *evaluator) evaluateOne(r *Request, grants []Grant) Verdict {
	c, refused := e.prepare(r)
	if refused != nil {
		return Verdict{code: refused.code, errors: []string{refused.message}}
	}
	return c.evaluate(grants)
}

func (e *evaluator) evaluateAll(list []Request, grants []Grant) []Verdict {
	verdicts := make([]Verdict, len(list))
	for i := range list {
		verdicts[i] = e.evaluateOne(&list[i], grants)
	}
	return verdicts
}

// allAllow combines verdicts that all allow and that need at most one grant.
func allAllow(verdicts []Verdict) (Verdict, bool) {
	joined := Verdict{effect: Allow}
	for _, v := range verdicts {
		if v.effect != Allow || v.grantID != "" && joined.grantID != "" && v.grantID != joined.grantID {
			return Verdict{}, false
		}
		joined.grantID = cmp.Or(joined.grantID, v.grantID)
		joined.determining = append(joined.determining, v.determining...)
	}
	joined.determining = uniqueByID(joined.determining)
	return joined, true
}

// strictest combines verdicts without a grant: the first denial, otherwise an ask with the
// highest severity and the shortest timeout.
func strictest(verdicts []Verdict) Verdict {
	var joined Verdict
	for _, v := range verdicts {
		switch {
		case v.effect == Deny:
			return v
		case v.effect != Ask:
			continue
		case joined.effect != Ask:
			joined = v
		default:
			joined.determining = append(joined.determining, v.determining...)
			joined.timeout = shorter(joined.timeout, v.timeout)
			if slices.Index(expr.Severities, v.severity) > slices.Index(expr.Severities, joined.severity) {
				joined.severity, joined.missing, joined.wanted = v.severity, v.missing, v.wanted
			}
		}
	}
	joined.determining = uniqueByID(joined.determining)
	return joined
}

func uniqueByID(list []Determining) []Determining {
	slices.SortFunc(list, func(a, b Determining) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(list, func(a, b Determining) bool { return a.ID == b.ID })
}

// Judge evaluates a proposal with exactly the given votes. It is called after each vote, and
// again before dispatch if the snapshot has changed.
func (s *Set) Judge(r Request, a Approval) Judgement {
	if gate := s.access.skillGate(&r); gate != nil && !gate.Allowed {
		return gate.Judgement
	}
	var joined Judgement
	list := r.PerPath()
	for i := range list {
		c, refused := s.evaluator.prepare(&list[i])
		if refused != nil {
			return Judgement{Errors: []string{refused.message}}
		}
		j := c.judge(a)
		if !j.Allowed {
			return j
		}
		joined.Allowed = true
		joined.Determining = append(joined.Determining, j.Determining...)
	}
	joined.Determining = uniqueByID(joined.Determining)
	return joined
}
