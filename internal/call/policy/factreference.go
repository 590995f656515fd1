package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/check"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
)

// factTypes declares the context of calls, commits and injections, and its record types, from
// the table of facts.
func factTypes() string {
	declared := map[string][]string{}
	add := func(record, name string, f *Fact) {
		if f.optional() {
			name += "?"
		}
		declared[record] = append(declared[record], name+": "+f.PlainType())
	}
	for _, f := range contextFacts {
		if f.in&inCall != 0 && f.Name != "args" {
			add("CallContext", f.Name, f.Fact)
		}
		if f.in&inCommit != 0 {
			add("CommitContext", f.Name, f.Fact)
		}
		if f.in&inInjection != 0 {
			add("InjectionContext", f.Name, f.Fact)
		}
		for _, p := range f.parts {
			add(f.PlainType(), string(p.name), p.Fact)
		}
	}
	var b strings.Builder
	for _, record := range keysOf(declared) {
		fmt.Fprintf(&b, "type %s = { %s };\n", record, strings.Join(declared[record], ", "))
	}
	return b.String()
}

// factTexts returns the facts that can equal or contain only certain texts, by name. The texts
// in votes are roles and surfaces: a vote with a misspelt role never exists.
func factTexts(roles []access.Role) map[string]check.Texts {
	out := make(map[string]check.Texts)
	for _, f := range facts {
		if f.Values != nil {
			out[f.Name] = check.Texts{Values: f.Values, Set: strings.HasPrefix(f.Type, "Set<")}
		}
	}
	votes := []string{names.AnyRole}
	for _, role := range roles {
		votes = append(votes, string(role))
	}
	out["approval.votes"] = check.Texts{Values: append(votes, texts(surfaces, callSurfaces)...), Set: true}
	return out
}

// Facts lists all facts, for docs/reference/facts.md.
func Facts() []Fact { return slices.Clone(facts[:]) }

// DescribedFacts returns the rows that a description of a call can set individually: records by
// their parts, and paths unchanged.
func DescribedFacts() []Fact {
	return slices.DeleteFunc(slices.Clone(facts[:]), func(f Fact) bool {
		return !f.Described() || f.HasParts() || f.Name == "path_folded"
	})
}

// Described reports whether a description of a call sets the fact. It does not set the data of
// the call itself or the time.
func (f *Fact) Described() bool {
	return f.at != nil && f.origin != ofCall && f.origin != ofClock
}

// The contexts of the tables of facts.
const (
	ContextCall      = "tool call"
	ContextCommit    = "workspace.commit"
	ContextInjection = "secret.inject"
)

// Context returns the first context that has the fact.
func (f *Fact) Context() string {
	switch {
	case f.in&inCall != 0:
		return ContextCall
	case f.in&inCommit != 0:
		return ContextCommit
	}
	return ContextInjection
}

// Label is the name of the fact, with a question mark if it is optional.
func (f *Fact) Label() string {
	if f.optional() {
		return f.Name + "?"
	}
	return f.Name
}

// Shape describes the type: the name of a Cedar type, or "record".
func (f *Fact) Shape() string {
	kind := strings.TrimSuffix(f.PlainType(), "Facts")
	switch {
	case f.Type == "" || kind != f.PlainType() || kind == "ByRole":
		return "record"
	case strings.HasPrefix(kind, "Set<VoteFact"):
		return "Set of records"
	case strings.HasPrefix(kind, "Set<"):
		return "Set of String"
	}
	return kind
}

// Kind is "bound", "fresh" or "environment".
func (f *Fact) Kind() string { return f.kind.String() }

// Origin is the source of the fact.
func (f *Fact) Origin() string { return f.origin.String() }

// Description is the text of the fact, with its possible values, in Markdown.
func (f *Fact) Description() string {
	if f.Values == nil {
		return f.About
	}
	values := ": `" + strings.Join(f.Values, "`, `") + "`"
	return f.About + strings.ReplaceAll(values, ", ``", ", `\"\"`")
}

// HasParts reports whether the fact is a record whose parts have separate rows.
func (f *Fact) HasParts() bool {
	a := attributeOfName(types.String(f.Name))
	return a != 0 && contextFacts[a.index()].parts != nil
}

// OfCommit reports whether the fact belongs to change sets only.
func (f *Fact) OfCommit() bool { return f.origin == ofCommit }

// record returns the name of the record that contains the fact, or "".
func (f *Fact) record() string {
	name, _, inner := strings.Cut(f.Name, ".")
	if !inner {
		return ""
	}
	return name
}

// At returns a pointer to the fact in a request, or nil if the request lacks it. It first
// copies the containing record, so that other requests that share the record do not change.
func (f *Fact) At(r *Request) any {
	if f.at == nil || f.HasParts() {
		return nil
	}
	switch f.record() {
	case "exec":
		r.Facts.Exec = copyOf(r.Facts.Exec)
	case "external":
		r.Facts.External = copyOf(r.Facts.External)
	case "shell":
		r.Facts.Shell = copyOf(r.Facts.Shell)
	}
	if f.OfCommit() {
		r.Commit = copyOf(r.Commit)
	}
	return f.at(r)
}

func copyOf[T any](v *T) *T {
	var out T
	if v != nil {
		out = *v
	}
	return &out
}

func (o origin) String() string {
	return [...]string{"", "the call", "the caller", "planning", "the session", "the changes", "votes", "the clock"}[o]
}

func (w Way) String() string {
	return [...]string{"", "none", "the caller, by another argument", "the requester, by another reason", "approvers", "waiting"}[w]
}

func (k factKind) String() string { return [...]string{"", "bound", "fresh", "environment"}[k] }

// FactNamed returns the row of a fact, or nil.
func FactNamed(name string) *Fact {
	for i := range facts {
		if facts[i].Name == name {
			return &facts[i]
		}
	}
	return nil
}
