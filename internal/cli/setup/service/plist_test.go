package service

import (
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestLaunchAgentIsRead: independent readers of property lists (macOS and Python) read the
// launch agent.
func TestLaunchAgentIsRead(t *testing.T) {
	t.Parallel()
	p := palyrad(Launchd)
	p.Machine.OS, p.Program = "darwin", `/Applications/a & <b> "c"/palyrad`
	text := must.Get(p.Files())(t)[0].Text
	readers := map[string][]string{
		"plutil":  {"-convert", "json", "-o", "-", "-"},
		"python3": {"-c", "import json, plistlib, sys; json.dump(plistlib.load(sys.stdin.buffer, fmt=plistlib.FMT_XML), sys.stdout)"},
	}
	read := 0
	for program, args := range readers {
		path, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		read++
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s does not read it: %v: %s\n%s", program, err, out, text)
			continue
		}
		var job struct {
			Label                string
			ProgramArguments     []string
			EnvironmentVariables map[string]string
			RunAtLoad            bool
			KeepAlive            struct{ SuccessfulExit bool }
			ExitTimeOut          int
			StandardErrorPath    string
		}
		d := json.NewDecoder(strings.NewReader(string(out)))
		d.DisallowUnknownFields()
		must.Do(t, d.Decode(&job))
		if job.Label != "dev.palyra.palyrad" || !slices.Equal(job.ProgramArguments, []string{p.Program, "--config", p.Config}) || !job.RunAtLoad || job.KeepAlive.SuccessfulExit || job.ExitTimeOut != 45 || job.StandardErrorPath == "" {
			t.Errorf("%s reads %+v", program, job)
		}
		if want := map[string]string{"HOME": "/home/a b", "PATH": "/usr/bin:/bin", "XDG_STATE_HOME": "/home/a b/state"}; !maps.Equal(job.EnvironmentVariables, want) {
			t.Errorf("%s reads the environment %v", program, job.EnvironmentVariables)
		}
		// Control: a text that is not escaped is not read, or names another program.
		cmd = exec.CommandContext(t.Context(), path, args...)
		cmd.Stdin = strings.NewReader(strings.Replace(text, "&amp;", "&", 1))
		if out, err := cmd.CombinedOutput(); err == nil && strings.Contains(string(out), "a & ") {
			t.Errorf("%s reads anything: %s", program, out)
		}
	}
	if read == 0 {
		t.Skip("there is neither plutil nor python3")
	}
}
