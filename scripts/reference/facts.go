package main

import (
	"fmt"
	"strings"

	"palyra/internal/call/policy"
)

var factsPage = page{
	file: "facts.md", title: "Facts", body: facts,
	intro: `
These are the attributes of ` + "`context`" + ` in policies ([policies](../policy.md)). An attribute that ends in
` + "`?`" + ` is optional: test it with ` + "`context has`" + ` before use. The kind of a fact states what happens if it
changes between evaluation and execution:

- *bound*: a digest of these facts is part of the permit. If one of them changes, the call stops with
  ` + "`APPROVAL_BINDING_MISMATCH`" + `, which names the fact.
- *fresh*: the fact changes while a call waits. It is read again immediately before the decision, and
  policy evaluates the call again.
- *environment*: the fact describes the machine. If it changed at dispatch, policy evaluates the call
  again.`,
}

// factTables are the tables by the context of a fact.
var factTables = []struct{ title, context string }{
	{"Tool calls", policy.ContextCall},
	{"Additional facts of `workspace.commit`", policy.ContextCommit},
	{"Additional facts of `secret.inject`", policy.ContextInjection},
}

func facts() (string, error) {
	var b strings.Builder
	for _, t := range factTables {
		rows := newTable("attribute", "type", "kind", "from", "changed by", "description")
		for _, f := range policy.Facts() {
			if f.Context() == t.context {
				rows.row("`"+f.Label()+"`", f.Shape(), f.Kind(), f.Origin(), f.Change.String(), f.Description())
			}
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n", t.title, rows)
	}
	return b.String(), nil
}
