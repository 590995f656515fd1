package policy

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api/export"
)

const (
	testSuffix = ".test.yaml"
	// testsDir is a subdirectory of the policy directory.
	testsDir = "tests"
)

// testFlags are the flags of `palyra policy test`.
type testFlags struct {
	offline  bool
	coverMin int
}

func (a *draftCommands) policyTest() *cobra.Command {
	var f testFlags
	c := &cobra.Command{Use: "test [DIR|FILE ...]", Short: "Run the tests of policies and measure their coverage", Args: command.Args(0, -1),
		Long: "Run the cases of *.test.yaml files, next to the *.cedar files or in\n" +
			"DIR/tests, and print their coverage: each policy, and each condition true and\n" +
			"false. Policies among the arguments are tested in place of those in force.\n" +
			"Without an argument it tests policy.dir of the configuration.\n\n" +
			"The running gateway runs them with its own tools, settings and members; without\n" +
			"one, or with --offline, they run here with the built-in tools and without\n" +
			"members other than the ones in the test file. docs/policy-testing.md describes the file.\n" +
			"Exits 1 when a case fails or less than --cover-min percent is covered.",
		Example: "palyra policy test policies/\npalyra policy test policies/ --offline --cover-min 100",
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.testPolicy(cmd.Context(), given, f)
		}}
	c.Flags().BoolVar(&f.offline, "offline", false, "do not ask the gateway")
	c.Flags().IntVar(&f.coverMin, "cover-min", 0, "fail below this coverage, in percent of policies and conditions")
	return c
}

func (a *draftCommands) testPolicy(ctx context.Context, paths []string, f testFlags) error {
	if f.coverMin < 0 || f.coverMin > 100 {
		return command.Usage("--cover-min %d: want 0 to 100", f.coverMin)
	}
	if len(paths) == 0 {
		dir, err := a.ownDir("Or name directories or *" + testSuffix + " files.")
		if err != nil {
			return err
		}
		paths = []string{dir}
	}
	req, err := readTests(paths)
	if err != nil {
		return err
	}
	if len(req.GetTests()) == 0 {
		return a.noTests(export.Sources(req.GetSources()), paths)
	}
	v, where, stands, err := a.runTests(ctx, req, f.offline)
	if err != nil {
		return err
	}
	if err := a.printTests(v); err != nil {
		return err
	}
	if broken := filesWithErrors(v.GetFindings()); len(broken) > 0 {
		a.Say("nothing was tested, because of the errors in %s; ran %s", strings.Join(broken, ", "), where)
		return command.Exit(reason.Lookup(reason.PolicyInvalid).Exit)
	}
	a.Say("%d passed, %d failed; %d %% of policies and conditions covered; ran %s", v.GetPassed(), v.GetFailed(), v.GetCoveragePercent(), where)
	a.Say("%s", stands.text)
	short := int(v.GetCoveragePercent()) < f.coverMin
	if short {
		a.Say("less than --cover-min %d is covered", f.coverMin)
	}
	if v.GetFailed() > 0 || short {
		return command.Exit(reason.Lookup(reason.PolicyInvalid).Exit)
	}
	return nil
}

// noTests returns the error of a test run without tests. A policy file with syntax errors is
// reported first.
func (a *draftCommands) noTests(sources []policy.Source, paths []string) error {
	cfg, err := a.policyConfig(sources)
	if err != nil {
		return err
	}
	var broken []finding.Finding
	for _, f := range lint.Check(cfg) {
		if f.Code == finding.CodeSyntax {
			broken = append(broken, f)
		}
	}
	if len(broken) > 0 {
		return &finding.LoadError{Findings: broken}
	}
	return command.Usage("there are no *%s files in %s", testSuffix, strings.Join(paths, ", ")).
		WithRemedy("`palyra policy init --profile laptop DIR` writes policies with their tests.")
}

// filesWithErrors returns the files that prevent tests from running.
func filesWithErrors(list []*palyrav1.PolicyFinding) []string {
	var files []string
	for _, f := range list {
		if f.GetSeverity() == string(finding.SeverityError) {
			files = append(files, cmp.Or(f.GetFile(), "the set"))
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// runTests runs the tests at the gateway, or locally if none is reachable.
func (a *draftCommands) runTests(ctx context.Context, req *palyrav1.TestPolicyRequest, offline bool) (v *palyrav1.TestPolicyResponse, where string, stands standing, err error) {
	sources := export.Sources(req.GetSources())
	if !offline {
		g, err := a.Connect(ctx)
		if err == nil {
			v, err = g.Policy.TestPolicy(ctx, req)
		}
		if err == nil {
			return v, "by the gateway at " + g.Address, standingOf(ctx, g, sources), nil
		}
		if reason.Lookup(client.Explain(nil, err).Code).Exit != reason.ExitNotConnected {
			return nil, "", standing{}, err
		}
	}
	cfg, err := a.policyConfig(sources)
	if err != nil {
		return nil, "", standing{}, err
	}
	report, err := policytests.Run(ctx, cfg, export.Sources(req.GetTests()))
	return export.Tests(report), "here, with the built-in tools", a.standingHere(), err
}

// readTests reads tests, and the policies next to them.
func readTests(paths []string) (*palyrav1.TestPolicyRequest, error) {
	req := &palyrav1.TestPolicyRequest{}
	var policies []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, command.Usage("reading tests: %w", err)
		}
		tests := []string{path}
		switch {
		case info.IsDir():
			if tests, err = testsIn(path); err != nil {
				return nil, err
			}
			if found, _ := filepath.Glob(filepath.Join(escapeGlob(path), "*.cedar")); len(found) > 0 {
				policies = append(policies, path)
			}
		case !strings.HasSuffix(path, testSuffix):
			policies, tests = append(policies, path), nil
		}
		for _, test := range tests {
			source, err := readSource("tests", test)
			if err != nil {
				return nil, err
			}
			req.Tests = append(req.Tests, &palyrav1.PolicySource{Name: source.Name, Text: source.Text})
		}
	}
	if len(policies) == 0 {
		return req, nil
	}
	var err error
	req.Sources, err = namedSources(policies)
	return req, err
}

// testsIn lists the test files of a directory and of tests below it.
func testsIn(dir string) ([]string, error) {
	var all []string
	for _, in := range []string{dir, filepath.Join(dir, testsDir)} {
		found, err := filepath.Glob(filepath.Join(escapeGlob(in), "*"+testSuffix))
		if err != nil {
			return nil, command.Usage("reading tests: %w", err)
		}
		slices.Sort(found)
		all = append(all, found...)
	}
	return all, nil
}

// printTests prints failures and missing coverage as text; machine formats contain everything.
func (a *draftCommands) printTests(v *palyrav1.TestPolicyResponse) error {
	return a.PrintOne("PolicyTest", printer.Record{Name: testVerdict(v), Body: printer.ProtoObject(v)}, func(p *printer.Page) {
		for _, f := range v.GetFindings() {
			if !aboutTool(f) {
				p.Text(findingText(f))
			}
		}
		for _, r := range v.GetResults() {
			if !r.GetPassed() {
				p.Hang(0, "FAIL ", fmt.Sprintf("%s  %s", placeText(r.GetFile(), r.GetLine()), r.GetName()))
				p.Hang(5, "", r.GetMessage())
			}
		}
		for _, c := range v.GetCoverage() {
			uncovered(p, c)
		}
	})
}

func testVerdict(v *palyrav1.TestPolicyResponse) string {
	if v.GetFailed() > 0 || len(filesWithErrors(v.GetFindings())) > 0 {
		return "failed"
	}
	return "passed"
}

// uncovered prints the uncovered parts of a policy.
func uncovered(p *printer.Page, c *palyrav1.PolicyCoverage) {
	var lacks []string
	if c.GetDetermined() == 0 {
		lacks = append(lacks, "never decided")
	}
	for _, x := range c.GetConditions() {
		switch {
		case x.GetWasTrue() == 0 && x.GetWasFalse() == 0:
			lacks = append(lacks, "never reached: "+x.GetText())
		case x.GetWasTrue() == 0:
			lacks = append(lacks, "never true: "+x.GetText())
		case x.GetWasFalse() == 0:
			lacks = append(lacks, "never false: "+x.GetText())
		}
	}
	for i, text := range lacks {
		if i == 0 {
			p.Hang(0, "not covered: ", fmt.Sprintf("%s  %s", c.GetPolicyId(), placeText(c.GetFile(), c.GetLine())))
		}
		p.Hang(2, "", text)
	}
}
