package tui

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// filter selects approvals. req is sent to the gateway; words are matched locally.
type filter struct {
	text string
	req  *palyrav1.ListApprovalsRequest
	// words must occur in the summary or the principal; the words in without must not.
	words, without []string
}

// filterHelp is shown while a filter is typed.
const filterHelp = "state: type: by: tool: severity: (with - before: not)  since:24h  all  words -words"

func parseFilter(text string, now time.Time) (filter, error) {
	f := filter{text: strings.Join(strings.Fields(text), " "), req: &palyrav1.ListApprovalsRequest{Ascending: true}}
	all := false
	for _, word := range strings.Fields(text) {
		if word == "all" {
			all = true
		} else if err := f.take(word, now); err != nil {
			return filter{}, err
		}
	}
	if len(f.req.States)+len(f.req.ExceptStates) == 0 && !all {
		f.req.States = []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING}
	}
	return f, nil
}

// take parses one word of a filter.
func (f *filter) take(word string, now time.Time) (err error) {
	rest, not := strings.CutPrefix(word, "-")
	key, value, found := strings.Cut(rest, ":")
	values := strings.Split(value, ",")
	either := func(some, none *[]string) {
		if not {
			some = none
		}
		*some = append(*some, values...)
	}
	switch {
	case found && key == "state" && not:
		f.req.ExceptStates, err = printer.ParseEnums[palyrav1.ApprovalState](key, values)
	case found && key == "state":
		f.req.States, err = printer.ParseEnums[palyrav1.ApprovalState](key, values)
	case found && key == "type" && not:
		f.req.ExceptSubjectTypes, err = printer.ParseEnums[palyrav1.ApprovalSubjectType](key, values)
	case found && key == "type":
		f.req.SubjectTypes, err = printer.ParseEnums[palyrav1.ApprovalSubjectType](key, values)
	case found && key == "by":
		either(&f.req.Principals, &f.req.ExceptPrincipals)
	case found && key == "tool":
		either(&f.req.Tools, &f.req.ExceptTools)
	case found && key == "severity":
		either(&f.req.Severities, &f.req.ExceptSeverities)
	case found && key == "since":
		f.req.Since, err = command.ParseMoment(key, value, now)
	case not && rest != "":
		f.without = append(f.without, strings.ToLower(rest))
	default:
		f.words = append(f.words, strings.ToLower(word))
	}
	return err
}

// page returns the request for one page.
func (f filter) page(size int32, token string) *palyrav1.ListApprovalsRequest {
	req := proto.CloneOf(f.req)
	req.PageSize, req.PageToken = size, token
	return req
}

// admits evaluates a row as the gateway would, so that live changes are filtered too.
func (f filter) admits(r *row) bool {
	req := f.req
	text := strings.ToLower(r.what + " " + r.by)
	holds := func(word string) bool { return strings.Contains(text, word) }
	people := []string{r.requester, r.owner}
	switch {
	case !admits(req.GetStates(), req.GetExceptStates(), r.state),
		!admits(req.GetSubjectTypes(), req.GetExceptSubjectTypes(), r.kind),
		!admits(req.GetPrincipals(), req.GetExceptPrincipals(), people...),
		!admits(req.GetTools(), req.GetExceptTools(), r.tool),
		!admits(req.GetSeverities(), req.GetExceptSeverities(), r.severity),
		req.GetSince() != nil && r.created.Before(req.GetSince().AsTime()),
		slices.ContainsFunc(f.without, holds):
		return false
	}
	return !slices.ContainsFunc(f.words, func(word string) bool { return !holds(word) })
}

// admits reports whether one of the values is wanted, and none is unwanted.
func admits[V comparable](wanted, unwanted []V, values ...V) bool {
	in := func(list []V) bool {
		return slices.ContainsFunc(values, func(v V) bool { return slices.Contains(list, v) })
	}
	return (len(wanted) == 0 || in(wanted)) && !in(unwanted)
}
