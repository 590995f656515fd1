package policytests_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
)

// TestDocs: every recipe of the documents loads, and every code of a finding is described.
func TestDocs(t *testing.T) {
	t.Parallel()
	var recipes []string
	for _, name := range []string{"../../../../docs/policy-recipes.md", "../../../../docs/policy-recipes-tested.md"} {
		for _, m := range regexp.MustCompile("(?s)```cedar\n(.*?)```").FindAllStringSubmatch(document(t, name), -1) {
			recipes = append(recipes, m[1])
		}
	}
	if len(recipes) < 24 {
		t.Fatalf("found %d recipes", len(recipes))
	}
	o := policytest.ManyMembers(strings.Join(recipes, "\n"))
	o.Roles = []access.Role{"security"}
	for _, f := range lint.Check(withBuiltinTools(t, o)) {
		if f.File == "test.cedar" && f.Severity == finding.SeverityError {
			t.Errorf("%s", f)
		}
	}
	text := document(t, "../../../../docs/policy-testing.md")
	for _, code := range []string{
		finding.CodeSyntax, finding.CodeTooLarge, finding.CodeAnnotation, finding.CodeDuplicateID, finding.CodeUnknownName,
		finding.CodeUnknownEntity, finding.CodeUnknownValue, finding.CodeType, finding.CodeUnguarded, finding.CodeNeverApplies, finding.CodeShadowed,
		finding.CodePermitsAll, finding.CodeWaives, finding.CodeHostNetwork, finding.CodeMayError, finding.CodePathSpelling, finding.CodeCommandLine, finding.CodeShellLeftOut, finding.CodeNotMonotone, finding.CodeOpaque,
		finding.CodeSensitiveTools, finding.CodeConfig, finding.CodeSample, finding.CodeTestFile, finding.CodeTest,
	} {
		if !strings.Contains(text, "`"+code+"`") {
			t.Errorf("docs/policy-testing.md does not have the code %s", code)
		}
	}
}

// TestDocsTestFile: the test file of docs/policy-testing.md passes with the policy that it tests,
// and fails without it.
func TestDocsTestFile(t *testing.T) {
	t.Parallel()
	_, tests, found := strings.Cut(document(t, "../../../../docs/policy-testing.md"), "\n## Tests\n")
	m := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(tests)
	if !found || m == nil {
		t.Fatal("there is no test file")
	}
	own := strings.ReplaceAll(noCurl, "no-curl", "team.no-curl")
	if failures := runFile(t, policytest.Options{Policies: own}, m[1]).Failures(); len(failures) != 0 {
		t.Errorf("%v", failures)
	}
	if failures := runFile(t, policytest.Options{}, m[1]).Failures(); len(failures) != 1 {
		t.Errorf("without the policy: %v", failures)
	}
}

// TestDocsRecipesWithTests: each recipe of docs/policy-recipes-tested.md passes its tests, which
// fail without its policies.
func TestDocsRecipesWithTests(t *testing.T) {
	t.Parallel()
	text := document(t, "../../../../docs/policy-recipes-tested.md")
	recipes := regexp.MustCompile("(?s)```cedar\n(.*?)```\n+```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(recipes) != 7 {
		t.Fatalf("found %d recipes", len(recipes))
	}
	for _, m := range recipes {
		o := policytest.ManyMembers(m[1])
		cfg := withBuiltinTools(t, o)
		for _, f := range lint.Check(cfg) {
			if f.File == "test.cedar" && (f.Severity == finding.SeverityError || f.Code == finding.CodeCommandLine || f.Code == finding.CodeShellLeftOut) {
				t.Errorf("%s", f)
			}
		}
		tests := []policy.Source{{Name: "recipe.test.yaml", Text: m[2]}}
		for _, failed := range must.Get(policytests.Run(t.Context(), cfg, tests))(t).Failures() {
			t.Errorf("%+v\n%s", failed, m[1])
		}
		if failures := must.Get(policytests.Run(t.Context(), withBuiltinTools(t, policytest.ManyMembers("")), tests))(t).Failures(); len(failures) == 0 {
			t.Errorf("the tests pass without\n%s", m[1])
		}
	}
}

// document returns the text of a file.
func document(t *testing.T, name string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(name))(t))
}

// withBuiltinTools returns a configuration with the daemon's built-in tools, from the copy that
// the CLI embeds.
func withBuiltinTools(t *testing.T, o policytest.Options) policy.Config {
	t.Helper()
	cfg := policytest.Config(o)
	cfg.Tools = nil
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("../../../cli/policy/builtin_tools.json"))(t), &cfg.Tools))
	return cfg
}
