package workspace

import "testing"

func TestRunnerOrders(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Makefile": true, "MAKEFILE": true, "conftest.py": true, "build.rs": true, "package.json": true, "jvm.config": true, ".gitattributes": true,
		"vite.config.ts": true, "Eslint.config.cjs": true, ".pylintrc": true, "compose.yaml": true, "flake.nix": true,
		"go.mod": false, "package-lock.json": false, "tsconfig.json": false, "main.go": false, "config": false, "config.toml": false,
	} {
		if got := RunnerOrders(name); got != want {
			t.Errorf("RunnerOrders(%q) = %v", name, got)
		}
	}
	// A runner reads every name in the data list.
	for _, name := range runnerData {
		found := false
		for _, files := range runnerReads {
			for _, file := range files {
				found = found || file == name
			}
		}
		if !found {
			t.Errorf("no runner reads %s", name)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a/b": true, "ünï": true, "a b": true, "a\nb": false, "\xff": false, "\u202ex": false, "z\u200bw": false, "d/.palyra-x": false, "": true,
	} {
		if got := Plain(name); got != want {
			t.Errorf("Plain(%q) = %v", name, got)
		}
	}
}
