package explain

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/text"
	"palyra/internal/egress"
)

// place is a place of a call's context that a person can change, by another argument or a later
// call.
type place struct {
	chain []string
	// optional is true if the caller can omit it.
	optional bool
	// usual are common values of such a place, the plainest first.
	usual []string
	// file is the number of the file, from 1, for a call that changes several.
	file int
	// set writes a value into a request; nil removes it.
	set func(*policy.Request, types.Value) error
}

func (p *place) path() string { return strings.Join(p.chain, ".") }

// places tries other values at every place that a policy in scope reads and a person can
// change. At each place, the first successful value is kept.
func (f *search) places() {
	for _, chain := range placesRead(append(f.blockers(f.now()), f.seen.call.Policies...)) {
		for _, p := range f.placesAt(chain) {
			for _, v := range f.seen.witnesses(p) {
				if f.trials >= maxTrials || f.try(f.seen.setPlace(p, v)) {
					break
				}
			}
		}
	}
}

// placesRead lists the places of the context that policies read. Arguments come before facts
// derived from them; in each group, places of the first policies come first.
func placesRead(policies []*expr.Policy) [][]string {
	var out [][]string
	for _, p := range policies {
		for _, cond := range p.Conditions() {
			for _, chain := range expr.Reads(cond.Body) {
				if chain[0] == "context" && !slices.ContainsFunc(out, func(c []string) bool { return slices.Equal(c, chain) }) {
					out = append(out, chain)
				}
			}
		}
	}
	arguments, others := out[:0:0], out[:0:0]
	for _, chain := range out {
		if len(chain) > 2 && chain[1] == "args" {
			arguments = append(arguments, chain)
		} else {
			others = append(others, chain)
		}
	}
	return append(arguments, others...)
}

// placesAt returns the places of a chain (one for each file for a path); none for places that
// people cannot change.
func (f *search) placesAt(chain []string) []place {
	if len(chain) > 1 && chain[1] == "args" {
		return f.args.at(chain)
	}
	row := policy.FactNamed(strings.Join(chain[1:], "."))
	if row == nil || row.Change != policy.ByArgument && row.Change != policy.ByReason && row.Change != policy.ByWaiting {
		return nil
	}
	p := place{chain: chain, usual: slices.Concat(row.Values, examples[row.Name]), set: func(r *policy.Request, v types.Value) error { return setFact(row, r, v) }}
	files := f.from.Request.Facts.Paths
	if chain[1] != "path" && chain[1] != "path_folded" || len(files) == 0 {
		return []place{p}
	}
	out := make([]place, len(files))
	for i := range files {
		out[i] = p
		out[i].file = i + 1
		out[i].set = func(r *policy.Request, v types.Value) error {
			r.Facts.Paths = slices.Clone(r.Facts.Paths)
			text, ok := v.(types.String)
			r.Facts.Paths[i] = string(text)
			return unless(ok && text != "")
		}
	}
	return out
}

// examples are common values of facts, the plainest first.
var examples = map[string][]string{
	"path": {"file.txt", "other.txt"}, "path_folded": {"file.txt", "other.txt"},
	"host": {"www", "example.com", "example.org"}, "domain": {"example.com", "example.org"},
	"method": {"GET", "HEAD", "POST", "PUT", "DELETE"}, "exec.basename": {"ls", "true"},
}

// setFact writes the value of a fact and its derived facts into a request. It copies the data
// that it modifies.
func setFact(f *policy.Fact, r *policy.Request, v types.Value) error {
	if f.Name == "path_folded" {
		f = policy.FactNamed("path")
	}
	var ok bool
	switch at := f.At(r).(type) {
	case *string:
		var text types.String
		if uid, isEntity := v.(types.EntityUID); isEntity {
			text, ok = uid.ID, string(uid.Type) == f.PlainType()
		} else if text, ok = v.(types.String); ok {
			ok = f.PlainType() == "String"
		}
		*at, ok = string(text), ok && text != ""
	case *bool:
		var b types.Boolean
		b, ok = v.(types.Boolean)
		*at = bool(b)
	case *int:
		var n types.Long
		n, ok = v.(types.Long)
		*at, ok = int(n), ok && n > 0 && n < 1<<16
	case *time.Time:
		var t types.Datetime
		t, ok = v.(types.Datetime)
		*at = t.Time()
	}
	return errors.Join(unless(ok), follow(f, r))
}

// follow sets the facts derived from a fact: the folded form of a path, the domain of a host.
func follow(f *policy.Fact, r *policy.Request) error {
	switch f.Name {
	case "path":
		r.Facts.PathFolded = text.FoldCase(r.Facts.Path)
	case "domain", "host":
		if f.Name == "domain" {
			r.Facts.Host = r.Facts.Domain
		}
		h, err := egress.CanonicalHost(r.Facts.Host)
		r.Facts.Domain = h.Domain()
		return err
	}
	return nil
}

func unless(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("no call can have this value here")
}
