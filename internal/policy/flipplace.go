package policy

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/egress"
	"palyra/internal/tool"
)

// place is a place of a call's context that a person can change, by calling
// with something else or later.
type place struct {
	chain []string
	// optional is true when the caller can leave it out.
	optional bool
	// usual are values that such a place has in practice, the plainest first.
	usual []string
	// file is, of a call that changes several files, the number of one, from 1.
	file int
	// set writes a value into a request, nil for none.
	set func(*Request, types.Value) error
}

func (p *place) path() string { return strings.Join(p.chain, ".") }

// places tries other values at every place that a policy in scope reads and a
// person can change. At each, the first that does is kept.
func (f *search) places() {
	for _, chain := range f.placesRead() {
		for _, p := range f.placesAt(chain) {
			for _, v := range f.seen.witnesses(p) {
				if f.trials >= maxTrials || f.try(f.seen.setPlace(p, v)) {
					break
				}
			}
		}
	}
}

// placesRead lists the places of the context that policies in scope read:
// arguments before what follows from them, and first what those read that stand
// in the way.
func (f *search) placesRead() [][]string {
	var out [][]string
	for _, p := range append(f.blockers(), f.seen.inScope()...) {
		for _, cond := range p.conditions() {
			for _, chain := range reads(cond.body) {
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

// placesAt returns the place of a chain, of a path one for each file; none for
// what no person changes.
func (f *search) placesAt(chain []string) []place {
	if len(chain) > 1 && chain[1] == "args" {
		return f.argument(chain)
	}
	set, ok := changeable[strings.Join(chain[1:], ".")]
	if !ok {
		return nil
	}
	p := place{chain: chain, usual: set.usual, set: set.set}
	files := f.from.Request.Facts.Paths
	if chain[1] != "path" && chain[1] != "path_folded" || len(files) == 0 {
		return []place{p}
	}
	out := make([]place, len(files))
	for i := range files {
		out[i] = p
		out[i].file = i + 1
		out[i].set = func(r *Request, v types.Value) error {
			r.Facts.Paths = slices.Clone(r.Facts.Paths)
			return textInto(&r.Facts.Paths[i], v)
		}
	}
	return out
}

// changeable are the facts that a person changes by calling with something
// else, or later. All others are found by the gateway: no advice.
var changeable = map[string]place{
	"path":             {usual: []string{"file.txt", "other.txt"}, set: func(r *Request, v types.Value) error { return setFile(r, v) }},
	"path_folded":      {usual: []string{"file.txt", "other.txt"}, set: func(r *Request, v types.Value) error { return setFile(r, v) }},
	"host":             {usual: []string{"www", "example.com", "example.org"}, set: setHost},
	"domain":           {usual: []string{"example.com", "example.org"}, set: setHost},
	"port":             {set: func(r *Request, v types.Value) error { return numberInto(&r.Facts.Port, v) }},
	"method":           {usual: []string{"GET", "HEAD", "POST", "PUT", "DELETE"}, set: func(r *Request, v types.Value) error { return textInto(&r.Facts.Method, v) }},
	"workspace":        {set: func(r *Request, v types.Value) error { return nameInto(&r.Facts.Workspace, v) }},
	"exec.basename":    {usual: []string{"ls", "true"}, set: func(r *Request, v types.Value) error { return textInto(&execOf(r).Basename, v) }},
	"exec.inline_code": {set: func(r *Request, v types.Value) error { return flagInto(&execOf(r).InlineCode, v) }},
	"now":              {set: func(r *Request, v types.Value) error { return timeInto(&r.Time, v) }},
}

var errNoValue = errors.New("no call can have this here")

func textInto(at *string, v types.Value) error {
	text, ok := v.(types.String)
	if *at = string(text); !ok || text == "" {
		return errNoValue
	}
	return nil
}

func nameInto(at *string, v types.Value) error {
	uid, ok := v.(types.EntityUID)
	if *at = string(uid.ID); !ok || uid.Type != typeWorkspace {
		return errNoValue
	}
	return nil
}

func flagInto(at *bool, v types.Value) error {
	b, ok := v.(types.Boolean)
	if *at = bool(b); !ok {
		return errNoValue
	}
	return nil
}

func numberInto(at *int, v types.Value) error {
	n, ok := v.(types.Long)
	if *at = int(n); !ok || n < 1 || n > 65535 {
		return errNoValue
	}
	return nil
}

func timeInto(at *time.Time, v types.Value) error {
	t, ok := v.(types.Datetime)
	if *at = t.Time(); !ok {
		return errNoValue
	}
	return nil
}

// setFile sets the path with the spelling that follows from it.
func setFile(r *Request, v types.Value) error {
	err := textInto(&r.Facts.Path, v)
	setPath(&r.Facts, r.Facts.Path)
	return err
}

// setHost sets a host with the domain that it has.
func setHost(r *Request, v types.Value) error {
	if err := textInto(&r.Facts.Host, v); err != nil {
		return err
	}
	h, err := egress.CanonicalHost(r.Facts.Host)
	r.Facts.Domain = h.Domain()
	return err
}

// execOf returns a copy of the request's program to write to.
func execOf(r *Request) *tool.ExecFacts {
	f := tool.ExecFacts{}
	if r.Facts.Exec != nil {
		f = *r.Facts.Exec
	}
	r.Facts.Exec = &f
	return &f
}
