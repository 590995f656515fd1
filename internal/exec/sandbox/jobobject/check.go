package jobobject

import (
	"errors"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// check refuses requirements that a job object cannot meet, before anything is opened.
func check(s sandbox.Spec) error {
	if err := command.CheckArgv(s.Argv); err != nil {
		return err
	}
	if err := errors.Join(command.CheckEnv(s.Env), sandbox.NoInjection(s)); err != nil {
		return err
	}
	if err := checkNames(s.Env); err != nil {
		return err
	}
	if err := s.Limits.Check(); err != nil {
		return err
	}
	if s.Executable.Path == "" || s.Executable.SHA256 == "" {
		return reason.Errorf(reason.InvalidInput, "the executable has no path or no digest")
	}
	if err := checkProgram(s.Executable.Path); err != nil {
		return err
	}
	if s.Workspace == sandbox.CopyOnWrite {
		return reason.Errorf(reason.SandboxUnavailable, "Windows does not support copy-on-write workspaces").
			WithRemedy("Declare the workspace with mode = \"direct\" to let programs write to it, or run the program read-only.")
	}
	if s.Egress == egress.Strict || s.Network != nil {
		return reason.Errorf(reason.EgressDenied, "a job object does not isolate the network, so strict egress cannot be enforced on Windows").
			WithRemedy("Set process_runner.egress_enforcement_mode = \"unrestricted\" and permit it by policy, or run the program on Linux.")
	}
	return nil
}

// checkProgram refuses batch files. cmd.exe parses their command line by rules under which an
// argument can become a command (CVE-2024-24576).
func checkProgram(name string) error {
	ext := strings.ToLower(path.Ext(strings.TrimRight(name, ". ")))
	if ext == ".exe" || ext == ".com" {
		return nil
	}
	return reason.Errorf(reason.ExecutableDenied, "the program %s is not an .exe file", name).
		WithRemedy("Batch files and scripts are not started; name the program that interprets them.")
}

// daemonOwn are variables that point a program to its directories; the sandbox sets them.
var daemonOwn = []string{"PATH", "PATHEXT", "COMSPEC", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "HOMEDRIVE", "HOMEPATH"}

// checkNames refuses names that differ from another name, or from a refused one, only by case:
// Windows ignores case.
func checkNames(env []string) error {
	seen := map[string]bool{}
	for _, pair := range env {
		name, _, _ := strings.Cut(pair, "=")
		upper := strings.ToUpper(name)
		switch {
		case slices.Contains(daemonOwn, upper):
			return reason.Errorf(reason.InvalidInput, "the environment variable %s is set by the sandbox", name)
		case command.Steers(upper):
			return reason.Errorf(reason.InvalidInput, "the environment variable %s could make a program run other code", name)
		case seen[upper]:
			return reason.Errorf(reason.InvalidInput, "the environment variable %s is set twice", name)
		}
		seen[upper] = true
	}
	return nil
}

// environment returns the environment of a program. The runner supplies the directories of the
// run and of the system.
func environment(env []string, windows, home, tmp string) []string {
	drive, _, _ := strings.Cut(windows, `\`)
	system := windows + `\System32`
	return append([]string{
		"SystemRoot=" + windows, "WINDIR=" + windows, "SystemDrive=" + drive,
		"PATH=" + system + ";" + windows, "PATHEXT=.EXE;.COM",
		"TEMP=" + tmp, "TMP=" + tmp, "HOME=" + home, "USERPROFILE=" + home, "APPDATA=" + home, "LOCALAPPDATA=" + home,
		"LANG=C.UTF-8", "TERM=dumb",
	}, env...)
}

// block encodes an environment for CreateProcess: every pair is ended by a NUL, and the whole
// block by another.
func block(env []string) string {
	sorted := slices.Clone(env)
	slices.SortFunc(sorted, func(a, b string) int { return strings.Compare(strings.ToUpper(a), strings.ToUpper(b)) })
	return strings.Join(sorted, "\x00") + "\x00\x00"
}
