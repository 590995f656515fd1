package tui

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// filter chooses approvals. The gateway is asked for states, types, principal and
// time; words are looked for in what it sent.
type filter struct {
	text      string
	states    []palyrav1.ApprovalState
	types     []palyrav1.ApprovalSubjectType
	principal string
	since     *timestamppb.Timestamp
	all       bool
	// words have to stand in the summary or the principal, without may not.
	words, without []string
}

// filterHelp is said where a filter is typed.
const filterHelp = "state:denied,expired  all  type:tool  by:agent:claude  since:24h  words  -words"

func parseFilter(text string, now time.Time) (filter, error) {
	f := filter{text: strings.Join(strings.Fields(text), " ")}
	for _, word := range strings.Fields(text) {
		if err := f.take(word, now); err != nil {
			return filter{}, err
		}
	}
	if len(f.states) == 0 && !f.all {
		f.states = []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING}
	}
	return f, nil
}

func (f *filter) take(word string, now time.Time) (err error) {
	key, value, found := strings.Cut(word, ":")
	switch {
	case word == "all":
		f.all = true
	case found && key == "state":
		f.states, err = parseEach[palyrav1.ApprovalState](key, value)
	case found && key == "type":
		f.types, err = parseEach[palyrav1.ApprovalSubjectType](key, value)
	case found && key == "by":
		f.principal = value
	case found && key == "since":
		f.since, err = command.ParseMoment(key, value, now)
	case len(word) > 1 && word[0] == '-':
		f.without = append(f.without, strings.ToLower(word[1:]))
	default:
		f.words = append(f.words, strings.ToLower(word))
	}
	return err
}

func parseEach[E protoreflect.Enum](key, values string) ([]E, error) {
	var list []E
	for name := range strings.SplitSeq(values, ",") {
		v, err := printer.ParseEnum[E](key, name)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// request asks the gateway for one page.
func (f filter) request(size int32, token string) *palyrav1.ListApprovalsRequest {
	return &palyrav1.ListApprovalsRequest{
		States: f.states, SubjectTypes: f.types, Principal: f.principal, Since: f.since, PageSize: size, PageToken: token,
	}
}

// admits judges a row as the gateway would, so that what changes live is filtered too.
func (f filter) admits(r *row) bool {
	text := strings.ToLower(r.what + " " + r.by)
	holds := func(word string) bool { return strings.Contains(text, word) }
	switch {
	case len(f.states) > 0 && !slices.Contains(f.states, r.state),
		len(f.types) > 0 && !slices.Contains(f.types, r.kind),
		f.principal != "" && r.requester != f.principal && r.owner != f.principal,
		f.since != nil && r.created.Before(f.since.AsTime()),
		slices.ContainsFunc(f.without, holds):
		return false
	}
	return !slices.ContainsFunc(f.words, func(word string) bool { return !holds(word) })
}
