package policytests_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/access"
	"palyra/internal/must"
	"palyra/internal/policy/finding"
	"palyra/internal/policy/lint"
	"palyra/internal/policy/policytest"
)

// Every recipe of docs/policy.md loads, and every code of a finding is there.
func TestDocs(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/policy.md"))(t)
	var recipes []string
	for _, m := range regexp.MustCompile("(?s)```cedar\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		recipes = append(recipes, m[1])
	}
	if len(recipes) < 5 {
		t.Fatalf("found %d recipes", len(recipes))
	}
	o := policytest.ManyMembers(strings.Join(recipes, "\n"))
	o.Roles = []access.Role{"security"}
	for _, f := range lint.Check(policytest.Config(o)) {
		if f.File == "test.cedar" && f.Severity == finding.SeverityError {
			t.Errorf("%s", f)
		}
	}
	for _, code := range []string{
		finding.CodeSyntax, finding.CodeTooLarge, finding.CodeAnnotation, finding.CodeDuplicateID, finding.CodeUnknownName,
		finding.CodeUnknownEntity, finding.CodeUnknownValue, finding.CodeType, finding.CodeUnguarded, finding.CodeNeverApplies, finding.CodeShadowed,
		finding.CodePermitsAll, finding.CodeWaives, finding.CodeHostNetwork, finding.CodeMayError, finding.CodePathSpelling, finding.CodeNotMonotone, finding.CodeOpaque,
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
	text := must.Get(os.ReadFile("../../../docs/policy.md"))(t)
	m := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(text))
	if m == nil {
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
