package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/lazyregexp"
)

// form describes the format of a fact's texts. A comparison with a text in another format never
// holds, so that a forbid with it forbids nothing.
type form struct {
	// fits reports whether a call can have the text; begins whether a call's text can begin
	// with it.
	fits, begins func(string) bool
	// help describes the format.
	help string
}

var (
	hexDigest = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)
	variable  = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	withPort  = lazyregexp.New(`:([0-9]+|\*)$`)
	// scripts are file suffixes that are common for project files and rare for installed programs.
	// Suffixes of Node scripts are excluded, because installed programs have them: npm is
	// npm-cli.js.
	scripts = lazyregexp.New(`\.(sh|bash|zsh|py|rb|pl|php|ps1|bat|cmd)$`)

	absolute = form{
		fits:   func(s string) bool { return s == "" || path.IsAbs(s) && path.Clean(s) == s || windows(s) },
		begins: func(s string) bool { return path.IsAbs(s) || windows(s) },
		help:   "write an absolute path, without . and ..",
	}
	relative = form{
		fits:   func(s string) bool { return s == "" || !path.IsAbs(s) && path.Clean(s) == s && !outward(s) },
		begins: func(s string) bool { return !path.IsAbs(s) && !strings.HasPrefix(s, "./") && !outward(s) },
		help:   "paths are relative to the workspace: \"src/main.go\", without ./ before them and / after them, and \".\" for the workspace itself",
	}
	hostname = form{
		fits: func(s string) bool {
			return canonicalHost(s) && (!withPort.MatchString(s) || strings.Count(s, ":") > 1)
		},
		begins: canonicalHost,
		help:   "hosts are in small letters, without scheme, port and path: \"api.example.org\"; context.port is the port",
	}
	secretName = form{
		fits: notBefore("vault://"), begins: notBefore("vault://"),
		help: "names of secrets are without vault://, such as \"global/github\"",
	}
)

// forms are the formats of facts, except closed lists of values, which loading checks.
var forms = map[string]form{
	"exec.basename": {
		fits:   func(s string) bool { return !strings.Contains(s, "/") || ownProgram(s) },
		begins: func(s string) bool { return !strings.Contains(s, "/") || strings.HasPrefix(s, "./") },
		help:   ownName,
	},
	"exec.path":   absolute,
	"exec.sha256": {fits: func(s string) bool { return s == "" || hexDigest.MatchString(s) }, help: "write sha256: and 64 hexadecimal digits in small letters"},
	"exec.arg1":   {fits: notBefore("-"), begins: notBefore("-"), help: "options are not arg1; compare context.exec.line, or look for the option in context.args.argv"},
	"exec.arg2":   {fits: notBefore("-"), begins: notBefore("-"), help: "options are not arg2; compare context.exec.line, or look for the option in context.args.argv"},
	"exec.env":    {fits: func(s string) bool { return s == "?" || variable.MatchString(s) }, help: "it holds names of variables, without = and a value"},
	"path":        relative,
	"path_folded": {fits: relative.fits, begins: relative.begins, help: relative.help},
	"host":        hostname,
	"domain":      hostname,
	"method":      {fits: upper, begins: upper, help: "methods are in capitals: \"POST\""},
	"egress.hosts": {
		fits: func(s string) bool { return canonicalHost(s) && withPort.MatchString(s) }, begins: canonicalHost,
		help: "it holds hosts with their ports, in small letters and without a scheme: \"github.com:443\"",
	},
	"egress.secrets":       secretName,
	"session.secrets_read": secretName,
	"changes.protected":    relative,
	"changes.root":         {fits: func(s string) bool { return s == "" || hexDigest.MatchString(s) }, help: "write sha256: and 64 hexadecimal digits in small letters"},
	"changes.top":          {fits: func(s string) bool { return !strings.Contains(s, "/") }, help: "it holds directories at the top of the workspace, such as \"src\", and \".\" for files there"},
	"external.outside":     absolute,
	"external.guarded":     {fits: func(s string) bool { return relative.fits(s) || absolute.fits(s) }, help: "paths are relative to the workspace, or absolute outside of it, without . and .."},
	"injection.env":        {fits: func(s string) bool { return s == "" || variable.MatchString(s) }, help: "it is the name of a variable"},
	"injection.file":       absolute,
}

const ownName = "a program of the workspace has its path, such as \"./deploy/release.sh\", and every other one its name alone; `context.exec.basename like \"./*release.sh\"` is for any directory"

// numbers are the minimum and maximum of numeric facts.
var numbers = map[string][2]int64{
	"risk": {0, 100}, "port": {1, 65535}, "sandbox.landlock_abi": {0, 1 << 31}, "hard_links": {0, 1 << 31},
	"changes.added": {0, 1 << 31}, "changes.modified": {0, 1 << 31}, "changes.deleted": {0, 1 << 31}, "changes.bytes": {0, 1 << 62}, "exit_code": {-1, 1 << 32},
	"session.calls_in_run": {0, 1 << 31}, "session.in_flight": {0, 1 << 31}, "session.bytes_out": {0, 1 << 62}, "approval.approvers": {0, 1 << 31}, "approval.age_seconds": {0, 1 << 62},
}

// checkForms finds comparisons that hold for no call: with a text that the fact never has, or a
// number out of its range.
func checkForms(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	say := func(at expr.Token, help, format string, args ...any) {
		f := p.At(at, finding.SeverityWarning, finding.CodeUnknownValue, format, args...)
		f.Help = help
		findings = append(findings, f)
	}
	for _, cond := range p.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			switch n := t.Node.(type) {
			case expr.NodeLike:
				parts := expr.PatternParts(n.Value)
				text, is := firstText(parts)
				for _, name := range factsOf(t.Kids[0]) {
					if f, has := forms[name]; is && has && !f.likely(text, len(parts) == 1) {
						say(t.At, f.help, "context.%s never begins with %q", name, text)
					}
				}
			case expr.NodeEqual, expr.NodeNotEqual, expr.NodeContains, expr.NodeContainsAll, expr.NodeContainsAny:
				for i, side := range t.Kids {
					for _, name := range factsOf(side) {
						for _, literal := range expr.Literals(t.Kids[1-i]) {
							if f, has := forms[name]; has && !f.fits(literal.Text) {
								say(literal.At, f.help, "context.%s is never, or never holds, %q", name, literal.Text)
							}
							if name == "exec.basename" && scripts.MatchString(literal.Text) && !ownProgram(literal.Text) {
								say(literal.At, ownName, "no program of a workspace has the basename %q", literal.Text)
							}
						}
					}
				}
			}
			if name, help := outOfRange(t); name != "" {
				say(t.At, help, "this comparison of context.%s holds for every call, or for none", name)
			}
			return true
		})
	}
	return findings
}

// likely reports whether a fact can have the text, which is a whole one or the part before the
// first wildcard.
func (f form) likely(text string, whole bool) bool {
	if whole {
		return f.fits(text)
	}
	return f.begins == nil || f.begins(text)
}

// firstText returns the text at the start of a pattern, false if it starts with a wildcard.
func firstText(parts []any) (string, bool) {
	if len(parts) == 0 {
		return "", false
	}
	text, is := parts[0].(types.String)
	return string(text), is
}

// factsOf returns the names of the context attributes that an expression is, or has as
// elements.
func factsOf(t *expr.Tree) []string {
	if chain := t.Chain(); len(chain) > 1 && chain[0] == "context" {
		return []string{strings.Join(chain[1:], ".")}
	}
	var out []string
	for _, k := range expr.ElementsOf(t) {
		out = append(out, factsOf(k)...)
	}
	return out
}

// outOfRange returns the fact of a numeric comparison with the same result for every value in
// its range.
func outOfRange(t *expr.Tree) (name, help string) {
	if len(t.Kids) != 2 {
		return "", ""
	}
	for i, side := range t.Kids {
		names := factsOf(side)
		v, is := t.Kids[1-i].Node.(expr.NodeValue)
		number, long := v.Value.(types.Long)
		if len(names) != 1 || !is || !long {
			continue
		}
		within, has := numbers[names[0]]
		if !has {
			continue
		}
		answers := make([]bool, 0, 4)
		for _, fact := range []int64{within[0], within[1], int64(number), int64(number) + 1, int64(number) - 1} {
			if fact >= within[0] && fact <= within[1] {
				left, right := fact, int64(number)
				if i == 1 {
					left, right = right, left
				}
				answer, known := compare(t, left, right)
				if !known {
					return "", ""
				}
				answers = append(answers, answer)
			}
		}
		if !slices.Contains(answers, !answers[0]) {
			return names[0], fmt.Sprintf("it is from %d to %d", within[0], within[1])
		}
	}
	return "", ""
}

// compare evaluates a comparison of two numbers; known is false for other operations.
func compare(t *expr.Tree, left, right int64) (answer, known bool) {
	switch t.Node.(type) {
	case expr.NodeEqual:
		return left == right, true
	case expr.NodeNotEqual:
		return left != right, true
	case expr.NodeLess:
		return left < right, true
	case expr.NodeLessEqual:
		return left <= right, true
	case expr.NodeGreater:
		return left > right, true
	case expr.NodeGreaterEqual:
		return left >= right, true
	}
	return false, false
}

func notBefore(prefix string) func(string) bool {
	return func(s string) bool { return !strings.HasPrefix(s, prefix) }
}

func upper(s string) bool { return strings.ToUpper(s) == s }

// outward reports whether a relative path leads out of the workspace.
func outward(s string) bool { return s == ".." || strings.HasPrefix(s, "../") }

// windows reports whether a path begins like an absolute one of Windows.
func windows(s string) bool { return len(s) > 2 && s[1] == ':' || strings.HasPrefix(s, `\\`) }

// ownProgram reports whether a text is the basename of a program of the workspace.
func ownProgram(s string) bool {
	rest, own := strings.CutPrefix(s, "./")
	return own && relative.fits(rest) && rest != "" && rest != "."
}

// canonicalHost reports whether a text may be (the beginning of) a host in the format of facts.
func canonicalHost(s string) bool {
	return strings.ToLower(s) == s && !strings.ContainsAny(s, "/ @?#") && !strings.HasSuffix(s, "..")
}
