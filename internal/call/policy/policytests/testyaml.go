package policytests

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/strictyaml"
)

// Limits on a test file. They keep a hostile or broken file from exhausting
// the stack of the recursive parser.
const (
	maxTestFile    = 1 << 20
	maxYAMLNesting = 64
	maxYAMLColumn  = 256
)

// The layout of a test file (docs/policy-testing.md). Values that need more validation than their type
// are read as texts.
type (
	testFile struct {
		Members   map[string]testMember `yaml:"members"`
		Principal string                `yaml:"principal"`
		Tests     []testEntry           `yaml:"tests"`
	}
	testMember struct {
		Roles    []string `yaml:"roles"`
		Owner    string   `yaml:"owner"`
		Disabled bool     `yaml:"disabled"`
	}
	testEntry struct {
		line, column int

		Name   string        `yaml:"name"`
		Call   testEntryCall `yaml:"call"`
		Expect testExpect    `yaml:"expect"`
	}
	testEntryCall struct {
		Principal string         `yaml:"principal"`
		Roles     []string       `yaml:"roles"`
		Tool      string         `yaml:"tool"`
		Args      map[string]any `yaml:"args"`
		Facts     map[string]any `yaml:"facts"`
		Session   string         `yaml:"session"`
		Channel   string         `yaml:"channel"`
		Votes     []testVote     `yaml:"votes"`
		Standing  bool           `yaml:"standing"`
		At        string         `yaml:"at"`
	}
	testVote struct {
		User    string   `yaml:"user"`
		Roles   []string `yaml:"roles"`
		Surface string   `yaml:"surface"`
		Paired  *bool    `yaml:"paired"`
		Present bool     `yaml:"present"`
	}
	testExpect struct {
		Verdict     string   `yaml:"verdict"`
		Reason      string   `yaml:"reason"`
		Determining []string `yaml:"determining"`
		Includes    []string `yaml:"includes"`
		Missing     string   `yaml:"missing"`
	}
)

// SetPlace stores the position of the entry.
func (e *testEntry) SetPlace(line, column int) { e.line, e.column = line, column }

// Check reads test files and returns their errors. It runs nothing.
func Check(files []policy.Source) []finding.Finding {
	_, findings := parseTests(files)
	return findings
}

// parseTests reads test files. An unknown key is an error with its position.
func parseTests(files []policy.Source) (cases []testCase, findings []finding.Finding) {
	for _, f := range files {
		src := testText{expr.NewSourceText(f.Name, f.Text)}
		file, finding := src.testFile()
		if finding != nil {
			findings = append(findings, *finding)
			continue
		}
		read, found := src.testCases(file)
		cases, findings = append(cases, read...), append(findings, found...)
	}
	if len(cases) > maxTestCases {
		findings = append(findings, finding.Finding{Severity: finding.SeverityError, Code: finding.CodeConfig,
			Message: fmt.Sprintf("the files have %d test cases; the limit is %d", len(cases), maxTestCases)})
	}
	return cases, findings
}

// testText is a test file, for findings.
type testText struct{ *expr.Source }

// testFinding is an error in a test file. An error without a YAML position, such as a missing
// entry, is reported at the beginning of the file.
func (s testText) testFinding(line, column int, format string, args ...any) *finding.Finding {
	f := s.Finding(finding.SeverityError, finding.CodeTestFile, max(line, 1), max(column, 1), format, args...)
	return &f
}

func (s testText) testFile() (file testFile, found *finding.Finding) {
	if len(s.Text) > maxTestFile {
		return file, s.testFinding(1, 1, "the file has %d bytes; the limit is %d", len(s.Text), maxTestFile)
	}
	root, err := strictyaml.Parse([]byte(s.Text), strictyaml.Options{Brackets: maxYAMLNesting, Indented: maxYAMLColumn, Plain: true})
	if errors.Is(err, strictyaml.ErrDocuments) || err == nil && root == nil {
		return file, s.testFinding(1, 1, "the file must be one YAML document with a list of tests")
	}
	if err == nil {
		err = strictyaml.Decode(root, &file)
	}
	if err != nil {
		return file, s.yamlFinding(err)
	}
	if len(file.Tests) == 0 {
		return file, s.testFinding(1, 1, "the file has no tests")
	}
	return file, nil
}

// yamlFinding adds the position to a YAML error.
func (s testText) yamlFinding(err error) *finding.Finding {
	var known *strictyaml.Error
	if !errors.As(err, &known) {
		return s.testFinding(1, 1, "%s", err)
	}
	return s.testFinding(known.Line, known.Column, "%s", expr.Clip(known.Message))
}

// testCases checks the entries of a file.
func (s testText) testCases(file testFile) (cases []testCase, findings []finding.Finding) {
	members, err := membersOf(file.Members)
	if err != nil {
		return nil, []finding.Finding{*s.testFinding(1, 1, "%s", err)}
	}
	names := make(map[string]bool)
	for _, e := range file.Tests {
		c := testCase{file: s.Name, line: e.line, name: e.Name, members: members}
		if c.call, err = e.Call.read(file.Principal); err == nil {
			c.expect, err = e.Expect.read()
		}
		switch {
		case e.Name == "":
			err = errors.New("a test needs a name")
		case names[e.Name]:
			err = fmt.Errorf("two tests are named %q", e.Name)
		}
		names[e.Name] = true
		if err != nil {
			findings = append(findings, *s.testFinding(e.line, e.column, "%s", err))
			continue
		}
		cases = append(cases, c)
	}
	return cases, findings
}

// membersOf reads declared members, sorted by name; nil when there are none.
func membersOf(declared map[string]testMember) ([]access.Member, error) {
	var list []access.Member
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		d := declared[name]
		p, err := principalNamed(name)
		if err != nil {
			return nil, fmt.Errorf("members: %w", err)
		}
		m := access.Member{Principal: p, Disabled: d.Disabled}
		if m.Roles, err = rolesOf(d.Roles); err != nil {
			return nil, fmt.Errorf("members: %s: %w", name, err)
		}
		if d.Owner != "" {
			if m.Owner, err = principalNamed(d.Owner); err != nil {
				return nil, fmt.Errorf("members: owner of %s: %w", name, err)
			}
		}
		if (p.Kind == access.KindAgent) == m.Owner.IsZero() {
			return nil, fmt.Errorf("members: %s: an agent must have an owner, other members must not", name)
		}
		list = append(list, m)
	}
	return list, nil
}

// principalNamed parses "kind:name"; a name without a kind is the name of a user.
func principalNamed(text string) (access.Principal, error) {
	if !strings.Contains(text, ":") {
		text = string(access.KindUser) + ":" + text
	}
	return access.ParsePrincipal(text)
}

func rolesOf(names []string) ([]access.Role, error) {
	var roles []access.Role
	for _, name := range names {
		r, err := access.ParseRole(name)
		if err != nil {
			return nil, err
		}
		roles = append(roles, r)
	}
	return roles, nil
}

// testTime is the default time of a test's call: tests must give the same result every day.
var testTime = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func (c testEntryCall) read(principal string) (call testCall, err error) {
	if c.Principal != "" {
		principal = c.Principal
	}
	if principal == "" || c.Tool == "" {
		return call, errors.New("a call needs a tool, and a principal in the call or in the file")
	}
	call = testCall{tool: c.Tool, session: c.Session, channel: c.Channel, standing: c.Standing, at: testTime}
	if call.principal, err = principalNamed(principal); err != nil {
		return call, err
	}
	if call.roles, err = rolesOf(c.Roles); err != nil {
		return call, err
	}
	if call.args, err = objectText("args", c.Args); err != nil {
		return call, err
	}
	if call.facts, err = objectText("facts", c.Facts); err != nil {
		return call, err
	}
	if c.At != "" {
		if call.at, err = time.Parse(time.RFC3339, c.At); err != nil {
			return call, fmt.Errorf("at: %q is not a valid time; use a form such as 2026-01-05T12:00:00Z", c.At)
		}
	}
	for _, v := range c.Votes {
		vote, err := v.read()
		if err != nil {
			return call, err
		}
		call.votes = append(call.votes, vote)
	}
	return call, nil
}

func objectText(what string, value map[string]any) ([]byte, error) {
	if value == nil {
		return nil, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%s: converting it to JSON: %w", what, err)
	}
	return text, nil
}

// NamedVote is a vote of a user by name, with roles.
func NamedVote(user string, roles []string) (vote policy.Vote, err error) {
	if vote.User, err = principalNamed(user); err == nil {
		vote.Roles, err = rolesOf(roles)
	}
	return vote, err
}

func (v testVote) read() (policy.Vote, error) {
	vote, err := NamedVote(v.User, v.Roles)
	if err != nil {
		return vote, fmt.Errorf("votes: %w", err)
	}
	vote.Surface, vote.Paired, vote.Present = access.Surface(v.Surface), true, v.Present
	if v.Paired != nil {
		vote.Paired = *v.Paired
	}
	return vote, nil
}

func (e testExpect) read() (expectation, error) {
	verdicts := []string{policy.Allow.String(), policy.Ask.String(), policy.Deny.String()}
	if !slices.Contains(verdicts, e.Verdict) {
		return expectation{}, fmt.Errorf("expect: verdict is %q; want one of %s", e.Verdict, strings.Join(verdicts, ", "))
	}
	slices.Sort(e.Determining)
	return expectation{
		verdict: e.Verdict, reason: reason.Code(e.Reason), exact: e.Determining, includes: e.Includes, missing: e.Missing,
	}, nil
}
