package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

var (
	uses       = regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.*)$`)
	pinned     = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	readOnly   = regexp.MustCompile(`(?m)^permissions:\n  contents: read\n(?:\n|\z)`)
	permission = regexp.MustCompile(`(?m)^\s*permissions:`)
	makeTarget = regexp.MustCompile(`(?m)\bmake ([a-z][a-z-]*)`)
)

// checkWorkflow returns the faults of a workflow of GitHub Actions. A tag of an action can be moved
// to other code, so actions are pinned by commit. Targets are those of the Makefile.
func checkWorkflow(text string, targets map[string]bool) (faults []string) {
	for _, use := range uses.FindAllStringSubmatch(text, -1) {
		if !pinned.MatchString(use[1]) {
			faults = append(faults, use[1]+" is not pinned by a full commit with its version as a comment")
		}
	}
	if !readOnly.MatchString(text) || len(permission.FindAllString(text, -1)) != 1 {
		faults = append(faults, "the permissions are not `contents: read` alone, for the whole workflow")
	}
	for _, target := range makeTarget.FindAllStringSubmatch(text, -1) {
		if !targets[target[1]] {
			faults = append(faults, "the Makefile has no target "+target[1])
		}
	}
	return faults
}

func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	targets := make(map[string]bool)
	for _, match := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(must.Get(os.ReadFile("../../Makefile"))(t)), -1) {
		targets[match[1]] = true
	}
	return targets
}

func TestWorkflows(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob("../../.github/workflows/*"))(t)
	if len(files) == 0 {
		t.Fatal("no workflow is found")
	}
	targets := makeTargets(t)
	all := ""
	for _, file := range files {
		text := string(must.Get(os.ReadFile(file))(t))
		all += text
		for _, fault := range checkWorkflow(text, targets) {
			t.Errorf("%s: %s", filepath.Base(file), fault)
		}
	}
	for _, command := range []string{"make check\n", "make test\n", "make test-all\n", "make packages\n", "make check-packages\n", "make check-reproducible\n", "make packages KEYS="} {
		if !strings.Contains(all, command) {
			t.Errorf("no workflow runs `%s`", strings.TrimSpace(command))
		}
	}
}

// TestWorkflowFaults: each fault is found, and a workflow without one passes.
func TestWorkflowFaults(t *testing.T) {
	t.Parallel()
	const commit = "08c6903cd8c0fde910a37f88322edcfb5dd907a8"
	good := "on: push\n\npermissions:\n  contents: read\n\njobs:\n  a:\n    steps:\n      - uses: actions/checkout@" + commit + " # v5.0.0\n      - run: make check\n"
	targets := map[string]bool{"check": true}
	if faults := checkWorkflow(good, targets); len(faults) != 0 {
		t.Errorf("a workflow without faults has %q", faults)
	}
	for name, change := range map[string][2]string{
		"tag instead of a commit":    {commit + " # v5.0.0", "v5"},
		"short commit":               {commit, commit[:12]},
		"no version":                 {" # v5.0.0", ""},
		"branch":                     {commit + " # v5.0.0", "main"},
		"image by tag":               {"actions/checkout@" + commit + " # v5.0.0", "docker://alpine:3"},
		"no permissions":             {"permissions:\n  contents: read\n\n", ""},
		"write permission":           {"contents: read", "contents: write"},
		"second permission":          {"contents: read\n", "contents: read\n  packages: write\n"},
		"permissions of a job":       {"    steps:\n", "    permissions: write-all\n    steps:\n"},
		"target that does not exist": {"make check", "make everything"},
	} {
		if faults := checkWorkflow(strings.Replace(good, change[0], change[1], 1), targets); len(faults) != 1 {
			t.Errorf("%s: the faults are %q", name, faults)
		}
	}
}
