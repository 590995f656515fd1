package command

import (
	"strings"
	"testing"
)

// TestCommand: the command is found after options, and is unknown if it is uncertain.
func TestCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		basename, called, shebang, argv string
		first, second                   string
	}{
		{"git", "git", "", "git push origin main", "push", "origin"},
		{"git", "git", "", "git status", "status", ""},
		{"git", "git", "", "git", "", ""},
		{"git", "git", "", "git push -f origin", "push", ""},
		{"git", "git", "", "git -C status push origin", "push", "origin"},
		{"git", "git", "", "git --git-dir status push", "push", ""},
		{"git", "git", "", "git --git-dir=status push", "push", ""},
		{"git", "git", "", "git -C a --no-pager -p push", "push", ""},
		{"git", "git", "", "git -C", "", ""},
		// These options rename the command, or may do so.
		{"git", "git", "", "git -c alias.status=push status", "", ""},
		{"git", "git", "", "git --config-env alias.status=X status", "", ""},
		{"git", "git", "", "git --exec-path=bin status", "", ""},
		{"git", "git", "", "git --exec-path bin status", "", ""},
		{"git", "git", "", "git --new-option status push", "", ""},
		{"git", "git", "", "git --no-pager=x status", "", ""},
		{"git", "git", "", "git -Cstatus push", "", ""},
		{"git", "git", "", "git -- push", "", ""},
		{"git", "git-receive-pack", "", "git-receive-pack status", "", ""},
		{"git", "git-push", "", "/usr/lib/git-core/git-push status", "", ""},
		// The options of other programs are not known.
		{"kubectl", "kubectl", "", "kubectl get pods", "get", "pods"},
		{"kubectl", "kubectl", "", "kubectl -n get delete pods", "", ""},
		{"kubectl", "kubectl", "", "kubectl --namespace=get delete pods", "", ""},
		{"npm-cli.js", "npm", "node", "npm run build", "run", "build"},
		{"npm-cli.js", "npm", "node", "npm --prefix x test", "", ""},
		{"python3.11", "python3", "", "python3 tool.py in", "tool.py", "in"},
		{"python3.11", "python3", "", "python3 -m pytest", "", ""},
		{"tar", "tar", "", "tar - x", "-", "x"},
	} {
		p := Program{Basename: c.basename, Called: c.called, Shebang: c.shebang}
		facts := p.Facts(strings.Fields(c.argv))
		if facts.Arg1 != c.first || facts.Arg2 != c.second {
			t.Errorf("%s: arg1 %q, arg2 %q, want %q, %q", c.argv, facts.Arg1, facts.Arg2, c.first, c.second)
		}
	}
	odd := Program{Basename: "git", Called: "git"}
	for _, argv := range [][]string{{"git", "", "push"}, {"git", strings.Repeat("x", longestArgument+1), "push"}} {
		if facts := odd.Facts(argv); facts.Arg1 != "" || facts.Arg2 != "" {
			t.Errorf("%.20q: arg1 %.20q, arg2 %.20q", argv, facts.Arg1, facts.Arg2)
		}
	}
}
