package policytests

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// CallerFor returns a principal as a caller from a paired device on the command line, with the
// roles and the owner in the set. A principal that is not a member has neither.
func CallerFor(s *policy.Set, p access.Principal) access.Caller {
	m, _ := s.View().Config().Member(p)
	return access.Caller{
		Principal: p, OnBehalfOf: s.Access().Requester(access.Caller{Principal: p}), Roles: slices.Clone(m.Roles),
		Surface: access.SurfaceCLI, Paired: true,
	}
}

// VoteFor completes a described vote: roles default to all roles of the user, the surface to
// the command line. A vote of an unknown user would never count and is an error.
func VoteFor(s *policy.Set, v policy.Vote, at time.Time) (policy.Vote, error) {
	m, known := s.View().Config().Member(v.User)
	if !known || v.User.Kind != access.KindUser {
		return v, reason.Errorf(reason.InvalidInput, "a vote of %s: the user does not exist", v.User).
			WithRemedy("List members with `palyra members list`.")
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
	if !slices.Contains(policy.FactNamed("surface").Values, string(v.Surface)) {
		return v, reason.Errorf(reason.InvalidInput, "a vote on %q: unknown surface", v.Surface)
	}
	v.At = at
	return v, nil
}

// ReplaceFacts replaces facts of a request by described ones. text is a JSON object of context
// attributes, such as {"exec": {"basename": "git"}}. Other facts are unchanged, and null
// removes an optional fact.
func ReplaceFacts(r *policy.Request, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	text, err := canonical.JSON(text)
	if err != nil {
		return reason.Errorf(reason.InvalidInput, "facts: %w", err)
	}
	was := r.Facts
	if r.Commit != nil {
		changes := *r.Commit // the original request stays unchanged
		r.Commit, r.Facts.Workspace = &changes, changes.Workspace
	}
	if err := replaceIn(r, "", text); err != nil {
		return reason.Errorf(reason.InvalidInput, "facts: %s", strings.TrimPrefix(err.Error(), "json: ")).
			WithRemedy("Name facts as policies do, without \"context.\": exec, host, path, session, ... (docs/reference/facts.md).")
	}
	if r.Commit != nil {
		r.Commit.Workspace = r.Facts.Workspace
	}
	if r.Facts.Path != was.Path && slices.Equal(r.Facts.Paths, was.Paths) {
		r.Facts.Paths = nil // the single path replaces the list
	}
	return foldGiven(r, was)
}

// replaceIn replaces facts of a record ("" for the context) by the members of a JSON object.
func replaceIn(r *policy.Request, record string, text []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	switch {
	case record == "exec." && r.Facts.Exec == nil:
		r.Facts.Exec = &tool.ExecFacts{}
	case record == "external." && r.Facts.External == nil:
		r.Facts.External = &tool.ExternalFacts{}
	case record == "shell." && r.Facts.Shell == nil:
		r.Facts.Shell = &tool.ShellFacts{}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if err := replaceFact(r, record+name, given[name]); err != nil {
			return err
		}
	}
	return nil
}

func replaceFact(r *policy.Request, name string, text json.RawMessage) error {
	if name == "paths" { // not an attribute: a call that changes several files is evaluated for each
		r.Facts.Paths = nil
		return json.Unmarshal(text, &r.Facts.Paths)
	}
	fact := policy.FactNamed(name)
	if fact == nil || !fact.Described() {
		return fmt.Errorf("unknown field %q", name)
	}
	absent := string(text) == "null"
	switch {
	case name == "exec" && absent:
		r.Facts.Exec = nil
		return nil
	case name == "external" && absent:
		r.Facts.External = nil
		return nil
	case name == "shell" && absent:
		r.Facts.Shell = nil
		return nil
	case fact.OfCommit() && absent && (name == "changes" || r.Commit == nil):
		r.Commit = nil
		return nil
	case name == "path_folded":
		return json.Unmarshal(text, &r.Facts.PathFolded)
	case fact.HasParts() && absent:
		return nil
	case fact.HasParts():
		return replaceIn(r, name+".", text)
	}
	at := fact.At(r)
	list := reflect.ValueOf(at).Elem()
	if list.Kind() == reflect.Slice {
		list.SetZero() // new elements must not overwrite the original request's
	}
	if err := json.Unmarshal(text, at); err != nil {
		return err
	}
	if texts, ok := at.(*[]string); ok {
		slices.Sort(*texts)
	}
	return nil
}

// foldGiven derives the folded path from the path, unless both are unchanged. A real call
// cannot have a different folded path.
func foldGiven(r *policy.Request, was tool.Facts) error {
	g := &r.Facts
	if g.Path == was.Path && g.PathFolded == was.PathFolded {
		return nil
	}
	folded := text.FoldCase(g.Path)
	if g.PathFolded != was.PathFolded && g.PathFolded != folded {
		return reason.Errorf(reason.InvalidInput, "facts: path_folded is %q for the path %q", folded, g.Path).
			WithRemedy("Give the path alone: path_folded follows from it.")
	}
	g.PathFolded = folded
	return nil
}
