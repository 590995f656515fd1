package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Sleeps lists the functions of test code that may call time.Sleep, as "file: function", each with
// its reason. CheckSleeps accepts a sleep in a function literal that is visibly in a bubble.
var Sleeps = map[string]string{
	// These run in a bubble of testing/synctest, which a caller opens.
	"cmd/palyra-wasm/watch_test.go: TestWatch":               "the cases of the table run in a bubble",
	"internal/call/approval/quota_test.go: flood":            "runs in a bubble",
	"internal/cli/evidence/progress_test.go: slowExport":     "runs in a bubble",
	"internal/cli/evidence/slow_test.go: Read":               "runs in a bubble",
	"internal/gateway/stalled_test.go: Write":                "runs in a bubble",
	"internal/gateway/stalled_test.go: FlushError":           "runs in a bubble",
	"internal/call/decision/decision_test.go: expired":       "runs in a bubble",
	"internal/egress/proxy/time_test.go: TestTime":           "the host runs in a bubble",
	"internal/egress/web/time_test.go: TestSlowHeader":       "the cases of the table run in a bubble",
	"internal/core/limit/fairqueue_test.go: visit":           "runs in a bubble",
	"internal/run/model/http_test.go: readSlowly":            "runs in a bubble",
	"internal/identity/pairing/pairing_test.go: TestEnds":    "the cases of the table run in a bubble",
	"internal/core/limit/lockout_test.go: TestGuessesAtOnce": "runs in a bubble",
	"internal/core/limit/ratelimit_test.go: attack":          "runs in a bubble",
	"internal/surface/resume/ask_test.go: Call":              "runs in a bubble",
	"internal/run/tape_test.go: pause":                       "runs in a bubble",

	// These programs and benchmarks need real time.
	"internal/exec/sandbox/bubblewrap/bench_linux_test.go: benchmarkRun": "a benchmark leaves a prepared sandbox the time that it has between calls of people",
	"test/attack/probe/remains_linux.go: outlast":                        "the attack works past its deadline",
	"test/attack/talker/hello_linux.go: hello":                           "the attack sends a byte at a time",
	"test/attack/talker/secrets_linux.go: say":                           "the attack writes a byte at a time",
	"test/attack/talker/talk_linux.go: drip":                             "the attack sends a byte at a time",
	"test/attack/talker/talk_linux.go: pause":                            "the attack pauses in the middle of a request",
	"test/attack/upstream_test.go: guess":                                "the attack measures how long a part of an answer is held back",
	"test/bench/samples.go: inTurns":                                     "a benchmark paces its samples",
	"test/facts/calls_test.go: vote":                                     "random pauses of less than a millisecond vary the order of events",
	"test/wasm/bench_test.go: BenchmarkCold":                             "a benchmark leaves the next worker the time that it has between calls of people",
}

// CheckSleeps finds test code that waits for a fixed time: time.Sleep, and a receive from
// time.After outside a select. A test that waits for a condition is faster, and reliable on a busy
// machine.
func CheckSleeps(t *Tree) []Finding { return sleeps(t, Sleeps) }

func sleeps(t *Tree, allowed map[string]string) []Finding {
	var out []Finding
	used, here := make(map[string]bool), make(map[string]bool)
	for _, p := range t.Sorted() {
		openers := bubbleOpeners(p)
		for _, f := range p.Files {
			if f.Generated || !f.Test && !testSupport(p.Dir) && !within(p.Dir, "test") {
				continue
			}
			here[f.Path] = true
			for _, d := range f.Syntax.Decls {
				name := ""
				if fn, ok := d.(*ast.FuncDecl); ok {
					name = fn.Name.Name
				}
				key := f.Path + ": " + name
				for _, call := range wallClockSleeps(f, d, openers) {
					if allowed[key] != "" {
						used[key] = true
						continue
					}
					out = append(out, Finding{t.at(call), "a test waits for a fixed time; wait for a condition (must.Eventually, a channel), or use testing/synctest"})
				}
			}
		}
	}
	for key := range allowed {
		if file, _, _ := strings.Cut(key, ": "); !used[key] && here[file] {
			out = append(out, Finding{key, "is excepted from the rule about sleeps but needs it no more; remove the exception"})
		}
	}
	return out
}

// bubbleOpeners returns the functions of a package's tests that call
// synctest.Test. A function literal that is an argument of one runs in a bubble.
func bubbleOpeners(p *Package) []string {
	var names []string
	for _, f := range p.Files {
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !takesFunc(fn) {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && isCall(f, call, "testing/synctest", "Test") {
					names = append(names, fn.Name.Name)
				}
				return true
			})
		}
	}
	return names
}

// takesFunc reports whether a parameter of a function is a function.
func takesFunc(fn *ast.FuncDecl) bool {
	return slices.ContainsFunc(fn.Type.Params.List, func(p *ast.Field) bool {
		_, ok := p.Type.(*ast.FuncType)
		return ok
	})
}

// wallClockSleeps returns the sleeps in a declaration outside function literals for synctest.Test
// or one of openers.
func wallClockSleeps(f *File, d ast.Decl, openers []string) []ast.Node {
	var out []ast.Node
	var visit func(n ast.Node, inBubble bool)
	visit = func(root ast.Node, inBubble bool) {
		ast.Inspect(root, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if !inBubble && isCall(f, n, "time", "Sleep") {
					out = append(out, n)
				}
				if !inBubble && (isCall(f, n, "testing/synctest", "Test") || slices.Contains(openers, calledName(n))) {
					for _, arg := range n.Args {
						_, literal := arg.(*ast.FuncLit)
						visit(arg, literal)
					}
					return false
				}
			case *ast.ExprStmt:
				receive, ok := n.X.(*ast.UnaryExpr)
				if !ok || receive.Op != token.ARROW || inBubble {
					return true
				}
				if call, ok := receive.X.(*ast.CallExpr); ok && isCall(f, call, "time", "After") {
					out = append(out, n)
				}
			case *ast.CommClause:
				// The receive of a select waits for the first event.
				for _, s := range n.Body {
					visit(s, inBubble)
				}
				return false
			}
			return true
		})
	}
	visit(d, false)
	return out
}

// isCall reports whether a call is a call of a function of an imported package.
func isCall(f *File, call *ast.CallExpr, imported, name string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	x, ok := selector.X.(*ast.Ident)
	return ok && x.Name == localName(f, imported)
}

// calledName returns the name of a called function of the same package, or "".
func calledName(call *ast.CallExpr) string {
	if ident, ok := call.Fun.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}
