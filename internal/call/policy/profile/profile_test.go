package profile_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/call/policy/profile"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// builtinTools returns the definitions of the daemon's built-in tools, from the copy that the
// CLI embeds.
func builtinTools(t *testing.T) []tool.Descriptor {
	t.Helper()
	text := must.Get(os.ReadFile("../../../cli/policy/builtin_tools.json"))(t)
	var list []tool.Descriptor
	must.Do(t, json.Unmarshal(text, &list))
	return list
}

// splitProfile returns the policies and the tests of a profile.
func splitProfile(p profile.Profile) (sources, tests []policy.Source) {
	for _, f := range p.Files() {
		if strings.HasSuffix(f.Name, ".cedar") {
			sources = append(sources, f)
		} else {
			tests = append(tests, f)
		}
	}
	return sources, tests
}

// Every profile loads without a finding about its files. Its tests pass, and they cover the
// whole profile.
func TestProfiles(t *testing.T) {
	t.Parallel()
	tools := builtinTools(t)
	for _, p := range profile.All() {
		t.Run(p.Name, func(t *testing.T) {
			sources, tests := splitProfile(p)
			report := must.Get(policytests.Run(t.Context(), policy.Config{Sources: sources, Tools: tools}, tests))(t)
			for _, f := range report.Findings {
				if f.File != "" || f.Severity == finding.SeverityError {
					t.Error(f)
				}
			}
			for _, r := range report.Results {
				if !r.Passed {
					t.Errorf("%s:%d: %s: %s", r.File, r.Line, r.Name, r.Message)
				}
			}
			if got := policytests.CoveredPercent(report.Coverage); got != 100 {
				t.Errorf("the tests cover %d %%: %+v", got, report.Coverage)
			}
			if len(report.Results) < 5 || len(report.Coverage) < 3 {
				t.Errorf("%d tests of %d policies were run", len(report.Results), len(report.Coverage))
			}
		})
	}
}

// Control of TestProfiles: without any one policy, its tests fail.
func TestProfilesWithoutOnePolicy(t *testing.T) {
	t.Parallel()
	tools := builtinTools(t)
	for _, p := range profile.All() {
		sources, tests := splitProfile(p)
		text := sources[0].Text
		for i := 0; i < strings.Count(text, "\n@id("); i++ {
			starts := strings.Split(text, "\n@id(")
			removed := strings.SplitN(starts[i+1], `"`, 3)[1]
			_, rest, _ := strings.Cut(starts[i+1], ";\n")
			starts[i] += rest
			cut := strings.Join(append(starts[:i+1:i+1], starts[i+2:]...), "\n@id(")
			report := must.Get(policytests.Run(t.Context(), policy.Config{Sources: []policy.Source{{Name: sources[0].Name, Text: cut}}, Tools: tools}, tests))(t)
			if len(report.Failures()) == 0 {
				t.Errorf("%s: the tests pass without %s", p.Name, removed)
			}
		}
	}
}
