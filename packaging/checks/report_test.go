//go:build linux

package checks

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// summary counts the cases.
var summary struct {
	sync.Mutex
	passed, failed, skipped int
}

// check runs one case, in parallel with others, and prints its line.
func check(t *testing.T, name string, examine func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Cleanup(func() {
			summary.Lock()
			defer summary.Unlock()
			switch {
			case t.Failed():
				summary.failed++
				fmt.Printf("fail     %s\n", name)
			case !t.Skipped():
				summary.passed++
				fmt.Printf("pass     %s\n", name)
			}
		})
		t.Parallel()
		examine(t)
	})
}

// notRun ends a case that cannot run here, and prints the reason.
func notRun(t *testing.T, why string, args ...any) {
	t.Helper()
	summary.Lock()
	summary.skipped++
	_, name, _ := strings.Cut(t.Name(), "/")
	fmt.Printf("not run  %s: %s\n", strings.ReplaceAll(name, "_", " "), fmt.Sprintf(why, args...))
	summary.Unlock()
	t.SkipNow()
}

// printSummary prints the counts. It reports whether cases ran and none failed.
func printSummary() bool {
	summary.Lock()
	defer summary.Unlock()
	fmt.Printf("%d passed, %d failed, %d not run\n", summary.passed, summary.failed, summary.skipped)
	return summary.failed == 0 && summary.passed > 0
}
