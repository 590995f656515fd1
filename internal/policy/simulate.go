package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
	"palyra/internal/canonical"
	"palyra/internal/reason"
	"palyra/internal/tool"
	"palyra/internal/workspace"
)

// Simulate is Evaluate with votes as if they had been cast on an ask about the
// call: those that are enough turn the ask into an allow, else the verdict says
// what they lack.
func (s *Set) Simulate(r Request, a Approval, grants []Grant) Verdict {
	v, _ := s.verdictWith(r, a, grants)
	return v
}

// CallerFor is a principal as it would come in from a paired device on the
// command line, with the roles and the owner that the set knows. One that is
// no member has neither.
func (s *Set) CallerFor(p access.Principal) access.Caller {
	m := s.dir.members[p]
	return access.Caller{
		Principal: p, OnBehalfOf: s.dir.requester(access.Caller{Principal: p}), Roles: slices.Clone(m.Roles),
		Surface: access.SurfaceCLI, Paired: true,
	}
}

// VoteFor completes a described vote: without roles it has all that the user
// holds, without a surface it is of the command line. A vote of somebody who is
// no user would never count, so that it is an error.
func (s *Set) VoteFor(v Vote, at time.Time) (Vote, error) {
	m, known := s.dir.members[v.User]
	if !known || v.User.Kind != access.KindUser {
		return v, reason.Errorf(reason.InvalidInput, "a vote of %s: there is no such user", v.User).
			WithRemedy("`palyra members list` shows the members.")
	}
	if len(v.Roles) == 0 {
		v.Roles = slices.Clone(m.Roles)
	}
	for _, r := range v.Roles {
		if !m.Holds(r) {
			return v, reason.Errorf(reason.InvalidInput, "a vote of %s with role %s, which they do not hold: it would not count", v.User, r)
		}
	}
	if v.Surface == "" {
		v.Surface = access.SurfaceCLI
	}
	if !slices.Contains(surfaces, v.Surface) {
		return v, reason.Errorf(reason.InvalidInput, "a vote on %q: there is no such surface", v.Surface)
	}
	v.At = at
	return v, nil
}

// ReplaceFacts puts described facts in the place of those of a request. text is
// a JSON object of context attributes, such as {"exec": {"basename": "git"}};
// what it does not name stays, and null takes an optional one away.
func ReplaceFacts(r *Request, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	text, err := canonical.JSON(text)
	if err != nil {
		return reason.Errorf(reason.InvalidInput, "facts: %w", err)
	}
	was := r.Facts
	if r.Commit != nil {
		changes := *r.Commit // that of the request that was copied stays as it is
		r.Commit, r.Facts.Workspace = &changes, changes.Workspace
	}
	if err := replaceIn(r, "", text); err != nil {
		return reason.Errorf(reason.InvalidInput, "facts: %s", strings.TrimPrefix(err.Error(), "json: ")).
			WithRemedy("Name facts as policies do, without \"context.\": exec, host, path, session, ... (docs/policy.md).")
	}
	if r.Commit != nil {
		r.Commit.Workspace = r.Facts.Workspace
	}
	if r.Facts.Path != was.Path && slices.Equal(r.Facts.Paths, was.Paths) {
		r.Facts.Paths = nil // the one path takes the place of the many
	}
	return foldGiven(r, was)
}

// replaceIn puts the members of a JSON object in the place of the facts of a
// record, "" for the context.
func replaceIn(r *Request, record string, text []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil || given == nil {
		return errors.Join(err, unless(given != nil))
	}
	for _, name := range keysOf(given) {
		if err := replaceFact(r, record+name, given[name]); err != nil {
			return err
		}
	}
	return nil
}

func replaceFact(r *Request, name string, text json.RawMessage) error {
	if name == "paths" { // no attribute: a call that changes several files is evaluated for each
		return decodeGiven(text, &r.Facts.Paths)
	}
	row := factOfName(name)
	if row == nil || row.at == nil || row.Origin == ofCall || row.Origin == ofClock {
		return fmt.Errorf("unknown field %q", name)
	}
	absent := string(text) == "null"
	if row.Origin == ofCommit && r.Commit == nil {
		if absent {
			return nil
		}
		r.Commit = &tool.CommitFacts{}
	}
	switch {
	case name == "exec" && absent:
		r.Facts.Exec = nil
	case name == "exec":
		r.Facts.Exec = copyOf(r.Facts.Exec)
	case name == "changes" && absent:
		r.Commit = nil
		return nil
	case name == "path_folded":
		return decodeGiven(text, &r.Facts.PathFolded)
	}
	if a := attributeOfName(types.String(name)); a != 0 && contextFacts[a.index()].parts != nil {
		if absent {
			return nil
		}
		return replaceIn(r, name+".", text)
	}
	at := row.at(r)
	err := decodeGiven(text, at)
	if list, ok := at.(*[]string); ok && sortedWhenPlanned(row) {
		slices.Sort(*list)
	}
	return err
}

// sortedWhenPlanned reports whether the gateway sorts a list of texts itself.
func sortedWhenPlanned(f *Fact) bool { return f.Name != "egress.hosts" && f.Origin != ofPast }

// decodeGiven reads JSON into a fact, a list into one of its own: the request
// that was copied has the same.
func decodeGiven(text []byte, at any) error {
	if list := reflect.ValueOf(at).Elem(); list.Kind() == reflect.Slice {
		list.SetZero()
	}
	return json.Unmarshal(text, at)
}

// copyOf returns a copy, of nil a zero value.
func copyOf[T any](v *T) *T {
	var out T
	if v != nil {
		out = *v
	}
	return &out
}

// foldGiven lets the folded path follow from the path, unless both stay as they
// were. A call can have no other.
func foldGiven(r *Request, was tool.Facts) error {
	g := &r.Facts
	if g.Path == was.Path && g.PathFolded == was.PathFolded {
		return nil
	}
	folded := workspace.FoldCase(g.Path)
	if g.PathFolded != was.PathFolded && g.PathFolded != folded {
		return reason.Errorf(reason.InvalidInput, "facts: path_folded is %q for the path %q", folded, g.Path).
			WithRemedy("Give the path alone: path_folded follows from it.")
	}
	g.PathFolded = folded
	return nil
}
