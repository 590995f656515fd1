package jobobject

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  func(*sandbox.Spec)
		want reason.Code
	}{
		"plain":           {func(*sandbox.Spec) {}, ""},
		"preflight":       {func(s *sandbox.Spec) { s.Egress = egress.Preflight }, ""},
		"strict":          {func(s *sandbox.Spec) { s.Egress = egress.Strict }, reason.EgressDenied},
		"hosts":           {func(s *sandbox.Spec) { s.Network = new(egress.Reach) }, reason.EgressDenied},
		"copy on write":   {func(s *sandbox.Spec) { s.Workspace = sandbox.CopyOnWrite }, reason.SandboxUnavailable},
		"batch file":      {func(s *sandbox.Spec) { s.Executable.Path = `C:\x\run.BAT` }, reason.ExecutableDenied},
		"hidden batch":    {func(s *sandbox.Spec) { s.Executable.Path = `C:\x\run.bat. .` }, reason.ExecutableDenied},
		"no extension":    {func(s *sandbox.Spec) { s.Executable.Path = `C:\x\run` }, reason.ExecutableDenied},
		"no program":      {func(s *sandbox.Spec) { s.Executable.Path = "" }, reason.InvalidInput},
		"no argv":         {func(s *sandbox.Spec) { s.Argv = nil }, reason.InvalidInput},
		"limits":          {func(s *sandbox.Spec) { s.Limits.Memory = 1 }, reason.InvalidInput},
		"path":            {func(s *sandbox.Spec) { s.Env = []string{"Path=C:\\evil"} }, reason.InvalidInput},
		"comspec":         {func(s *sandbox.Spec) { s.Env = []string{"ComSpec=C:\\evil.exe"} }, reason.InvalidInput},
		"steering":        {func(s *sandbox.Spec) { s.Env = []string{"node_options=--require=x"} }, reason.InvalidInput},
		"twice by case":   {func(s *sandbox.Spec) { s.Env = []string{"Color=1", "COLOR=2"} }, reason.InvalidInput},
		"NUL in variable": {func(s *sandbox.Spec) { s.Env = []string{"COLOR=1\x00PATH=x"} }, reason.InvalidInput},
	} {
		s := sandbox.Spec{Argv: []string{"x"}, Executable: tool.Executable{Path: `C:\x\run.exe`, SHA256: "sha256:1"}, Egress: egress.Unrestricted}
		c.set(&s)
		err := check(s)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var refused *reason.Error
		if !errors.As(err, &refused) || refused.Code != c.want || refused.NextStep() == "" {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	env := environment([]string{"alpha=1"}, `C:\Windows`, `D:\run\home`, `D:\run\tmp`)
	for _, want := range []string{`SystemRoot=C:\Windows`, "SystemDrive=C:", `PATH=C:\Windows\System32;C:\Windows`, `TEMP=D:\run\tmp`, `USERPROFILE=D:\run\home`, "alpha=1"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not in %q", want, env)
		}
	}
	text := block(env)
	if !strings.HasPrefix(text, "alpha=1\x00APPDATA=") || !strings.HasSuffix(text, "\x00\x00") || strings.Count(text, "\x00") != len(env)+1 {
		t.Errorf("the block is %q", text)
	}
}

// No run has the level strict, because files and the network are not restricted.
func TestLevel(t *testing.T) {
	t.Parallel()
	for _, readOnly := range []bool{true, false} {
		all := slices.DeleteFunc(requested(readOnly), func(layer string) bool { return layer == layerFiles || layer == layerNetwork })
		for _, mode := range []egress.Mode{egress.Strict, egress.Preflight, egress.Unrestricted} {
			if got := sandbox.Level(mode, requested(readOnly), all); got != sandbox.LevelNone {
				t.Errorf("read-only %t, egress %s: the level is %s", readOnly, mode, got)
			}
		}
		for _, layer := range essential(readOnly) {
			if !slices.Contains(all, layer) {
				t.Errorf("%s cannot be had", layer)
			}
		}
		if len(limitations(readOnly)) != 4 {
			t.Error("the limitations are not told")
		}
	}
}
