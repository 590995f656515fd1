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

// Every recipe of docs/policy.md loads, and every code of a finding is there.
func TestDocs(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../../docs/policy.md"))(t)
	var recipes []string
	for _, m := range regexp.MustCompile("(?s)```cedar\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		recipes = append(recipes, m[1])
	}
	if len(recipes) < 5 {
		t.Fatalf("found %d recipes", len(recipes))
	}
	o := policytest.ManyMembers(strings.Join(recipes, "\n"))
	o.Roles = []access.Role{"security"}
	for _, f := range lint.Check(withBuiltinTools(t, o)) {
		if f.File == "test.cedar" && f.Severity == finding.SeverityError {
			t.Errorf("%s", f)
		}
	}
	for _, code := range []string{
		finding.CodeSyntax, finding.CodeTooLarge, finding.CodeAnnotation, finding.CodeDuplicateID, finding.CodeUnknownName,
		finding.CodeUnknownEntity, finding.CodeUnknownValue, finding.CodeType, finding.CodeUnguarded, finding.CodeNeverApplies, finding.CodeShadowed,
		finding.CodePermitsAll, finding.CodeWaives, finding.CodeHostNetwork, finding.CodeMayError, finding.CodePathSpelling, finding.CodeCommandLine, finding.CodeShellLeftOut, finding.CodeNotMonotone, finding.CodeOpaque,
		finding.CodeSensitiveTools, finding.CodeConfig, finding.CodeSample, finding.CodeTestFile, finding.CodeTest,
	} {
		if !strings.Contains(string(text), "`"+code+"`") {
			t.Errorf("docs/policy.md does not have the code %s", code)
		}
	}
}

// The test file of docs/policy.md passes, and not without the policy that it is
// about.
func TestDocsTestFile(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../../docs/policy.md"))(t)
	_, tests, found := strings.Cut(string(text), "\n## Tests\n")
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

// Each recipe of docs/policy.md that has tests passes them, and not without its
// policies.
func TestDocsRecipesWithTests(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../../docs/policy.md"))(t)
	_, section, _ := strings.Cut(string(text), "\n### Recipes with their tests\n")
	section, _, found := strings.Cut(section, "\n### ")
	recipes := regexp.MustCompile("(?s)```cedar\n(.*?)```\n+```yaml\n(.*?)```").FindAllStringSubmatch(section, -1)
	if !found || len(recipes) != 7 {
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

// withBuiltinTools is a configuration with the daemon's own tools, from the copy
// that the CLI embeds.
func withBuiltinTools(t *testing.T, o policytest.Options) policy.Config {
	t.Helper()
	cfg := policytest.Config(o)
	cfg.Tools = nil
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("../../../cli/policy/builtin_tools.json"))(t), &cfg.Tools))
	return cfg
}
