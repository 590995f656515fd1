// Package policytests runs the policy tests of operators and measures their coverage. It also
// completes the facts, the caller and the votes of described calls, for tests and for
// simulations.
package policytests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Bounds of one run of tests, whose files come from every user who may test policies.
const (
	maxTestCases = 10_000
	// maxTestSets bounds the cached sets with their own members.
	maxTestSets = 32
	// maxTestsExplained bounds the failed cases with proposed changes: the search for these
	// takes far longer than the case.
	maxTestsExplained = 100
)

// Result is the result of one case.
type Result struct {
	File string
	// Line is the line of the case, from 1.
	Line   int
	Name   string
	Passed bool
	// Message describes the expectation, the result and the reason; "" if passed.
	Message string
	// Verdict is allow, ask or deny.
	Verdict     string
	Determining []string
}

// Report is the result of a run of tests.
type Report struct {
	Results  []Result
	Coverage []Coverage
	// Findings are errors and warnings in the sources or the tests; with an error, no case was
	// run.
	Findings []finding.Finding
}

// Failed counts the cases that failed.
func (r Report) Failed() int {
	n := 0
	for _, c := range r.Results {
		if !c.Passed {
			n++
		}
	}
	return n
}

// Failures returns the findings of a report that prevent a set from loading: errors, and one
// for each failed case.
func (r Report) Failures() []finding.Finding {
	var out []finding.Finding
	for _, f := range r.Findings {
		if f.Severity == finding.SeverityError {
			out = append(out, f)
		}
	}
	for _, c := range r.Results {
		if !c.Passed {
			out = append(out, finding.Finding{
				Severity: finding.SeverityError, Code: finding.CodeTest, File: c.File, Line: c.Line, Column: 1,
				Message: fmt.Sprintf("test %q failed: %s", c.Name, c.Message),
			})
		}
	}
	return out
}

// Run runs the cases of test files against the set of cfg, and measures their coverage of its
// sources. It returns the error of ctx.
func Run(ctx context.Context, cfg policy.Config, files []policy.Source) (Report, error) {
	set, findings := policy.Examine(cfg)
	cases, found := parseTests(files)
	report := Report{Findings: append(lint.Add(set, findings), found...)}
	if finding.HasErrors(report.Findings) {
		return report, nil
	}
	run := &testRun{cfg: cfg, sets: make(map[string]*policy.Set), schemas: make(map[string]*tool.Schema), coverage: newCoverage(set)}
	for _, c := range cases {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		report.Results = append(report.Results, run.one(c))
	}
	report.Coverage = run.coverage.list()
	return report, nil
}

// describedGrant is the id of the grant in a case.
const describedGrant = "described"

// testRun is one run of tests.
type testRun struct {
	cfg policy.Config
	// sets are cached by their declared members.
	sets     map[string]*policy.Set
	schemas  map[string]*tool.Schema
	coverage *coverage
	// explained counts the cases with proposed changes.
	explained int
}

func (t *testRun) one(c testCase) Result {
	result := Result{File: c.file, Line: c.line, Name: c.name}
	set, r, votes, err := t.prepare(c)
	if err != nil {
		result.Message = err.Error()
		return result
	}
	cast, grants := policy.Approval{Votes: votes, Now: r.Time}, []policy.Grant(nil)
	if c.call.standing {
		cast, grants = policy.Approval{}, []policy.Grant{{ID: describedGrant, Approval: cast}}
	}
	v := set.Simulate(r, cast, grants)
	result.Verdict, result.Determining = v.Effect().String(), determiningIDs(v)
	t.coverage.add(v, explain.Policies(set, r, cast, grants, v))
	result.Message = c.expect.differs(v)
	result.Passed = result.Message == ""
	if !result.Passed && t.explained < maxTestsExplained {
		t.explained++
		result.Message += ": " + explain.Verdict(set, r, cast, grants).Summary
	}
	return result
}

// prepare builds the set and the request of a case.
func (t *testRun) prepare(c testCase) (*policy.Set, policy.Request, []policy.Vote, error) {
	set, err := t.setFor(c)
	if err != nil {
		return nil, policy.Request{}, nil, err
	}
	r := policy.Request{
		Caller: CallerFor(set, c.call.principal), Tool: c.call.tool, Args: c.call.args, Session: c.call.session,
		Channel: c.call.channel, Time: c.call.at,
	}
	d, known := t.complete(&r)
	if err := ReplaceFacts(&r, c.call.facts); err != nil {
		return nil, r, nil, err
	}
	if known && r.Commit == nil {
		if err := t.checkArgs(&r, d); err != nil {
			return nil, r, nil, err
		}
	}
	votes := make([]policy.Vote, len(c.call.votes))
	for i, v := range c.call.votes {
		if votes[i], err = VoteFor(set, v, r.Time); err != nil {
			return nil, r, nil, err
		}
	}
	return set, r, votes, nil
}

// complete adds the data of the tool's definition. Policy denies an unknown tool as
// UNKNOWN_TOOL.
func (t *testRun) complete(r *policy.Request) (d tool.Descriptor, known bool) {
	i := slices.IndexFunc(t.cfg.Tools, func(d tool.Descriptor) bool { return d.Name == r.Tool })
	if i < 0 {
		return d, false
	}
	d = t.cfg.Tools[i]
	r.Capabilities, r.SkillID, r.SessionFacts.CallsInRun = d.Capabilities, d.Skill, 1
	return d, true
}

// checkArgs checks the arguments as for a real call.
func (t *testRun) checkArgs(r *policy.Request, d tool.Descriptor) error {
	schema := t.schemas[d.Name]
	if schema == nil {
		var err error
		if schema, err = d.CompileInput(); err != nil {
			return err
		}
		t.schemas[d.Name] = schema
	}
	args, err := schema.Check(r.Args)
	r.Args = args
	return err
}

// setFor returns the set with the members of a case.
func (t *testRun) setFor(c testCase) (*policy.Set, error) {
	members := t.cfg.Members
	if c.members != nil {
		members = c.members
	}
	if c.call.roles != nil {
		i := slices.IndexFunc(members, func(m access.Member) bool { return m.Principal == c.call.principal })
		if i < 0 {
			return nil, reason.Errorf(reason.InvalidInput, "roles are given for %s, which is not a member", c.call.principal)
		}
		members = slices.Clone(members)
		members[i].Roles = c.call.roles
	}
	key, err := canonical.DigestOf(members)
	if err != nil {
		return nil, err
	}
	if set := t.sets[key]; set != nil {
		return set, nil
	}
	cfg := t.cfg
	cfg.Members = members
	set, err := policy.Load(cfg)
	if err != nil {
		return nil, err
	}
	if len(t.sets) >= maxTestSets {
		clear(t.sets)
	}
	t.sets[key] = set
	return set, nil
}

func determiningIDs(v policy.Verdict) []string {
	ids := make([]string, 0, len(v.Determining()))
	for _, d := range v.Determining() {
		ids = append(ids, d.ID)
	}
	return ids
}

// expectation is the expected result of a case; empty fields match anything.
type expectation struct {
	verdict string
	reason  reason.Code
	// exact are all determining policies, nil if only includes counts.
	exact    []string
	includes []string
	// missing is a part of the expected Missing text.
	missing string
}

// differs describes the difference of a verdict from the expectation, or returns "".
func (e expectation) differs(v policy.Verdict) string {
	var wrong []string
	differ := func(what, want, got string) {
		if got == "" {
			got = "none"
		}
		wrong = append(wrong, fmt.Sprintf("expected %s %s, got %s", what, want, got))
	}
	if got := v.Effect().String(); got != e.verdict {
		differ("verdict", e.verdict, got)
	}
	if e.reason != "" && e.reason != v.Reason() {
		differ("reason", string(e.reason), string(v.Reason()))
	}
	got := determiningIDs(v)
	if e.exact != nil && !slices.Equal(got, e.exact) {
		differ("determining", orNone(e.exact), strings.Join(got, ", "))
	}
	for _, id := range e.includes {
		if !slices.Contains(got, id) {
			differ("determining with", id, strings.Join(got, ", "))
		}
	}
	if !strings.Contains(v.Missing(), e.missing) {
		differ("missing", fmt.Sprintf("%q", e.missing), fmt.Sprintf("%q", v.Missing()))
	}
	return strings.Join(wrong, "; ")
}

func orNone(ids []string) string {
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, ", ")
}

// testCase is one case of a test file.
type testCase struct {
	file string
	line int
	name string
	// members are the members that the file declares, nil for the running ones.
	members []access.Member
	call    testCall
	expect  expectation
}

// testCall is the call of a case.
type testCall struct {
	principal access.Principal
	// roles replace the principal's roles, unless nil.
	roles   []access.Role
	tool    string
	args    []byte
	facts   []byte
	session string
	channel string
	votes   []policy.Vote
	// standing is true if the votes belong to a grant.
	standing bool
	at       time.Time
}
