package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var testFunctions = regexp.MustCompile(`(?m)^func (?:Test[A-Z_0-9]\w*|Test)\(\w* ?\*testing\.T\)`)

// list prints each tier with its content, its time, its needs and the number of test functions of
// its packages.
func (s *session) list(ctx context.Context) error {
	all, err := listPackages(ctx, s.goTool, "./...")
	if err != nil {
		return err
	}
	suites := map[suite]string{quick: "make quick", core: "make test", long: "make test-all"}
	for _, t := range tiers {
		packages, tests := 0, 0
		for _, p := range all {
			if t.in == nil || !t.in(p) || !p.hasTests() {
				continue
			}
			n, err := countTests(p)
			if err != nil {
				return err
			}
			packages, tests = packages+1, tests+n
		}
		fmt.Fprintf(s.out, "%-14s %-13s %6s  %s\n", t.name, suites[t.suite], clock(t.budget), t.about)
		if t.in != nil {
			fmt.Fprintf(s.out, "%37s%d packages, %d test functions\n", "", packages, tests)
		}
		var names []string
		for _, n := range t.needs {
			names = append(names, n.name)
		}
		fmt.Fprintf(s.out, "%37sneeds %s\n", "", strings.Join(names, ", "))
	}
	return nil
}

func countTests(p pkg) (int, error) {
	n := 0
	for _, source := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		text, err := os.ReadFile(filepath.Join(p.Dir, source))
		if err != nil {
			return 0, err
		}
		n += len(testFunctions.FindAll(text, -1))
	}
	return n, nil
}
