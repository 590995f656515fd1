// Package service starts palyrad for one user: by the user's service manager (systemd, launchd), or
// detached with a pid file and a log. It does not write the manager's files; it returns them.
//
// systemd holds the port for agents. Claude Code sends its hooks to an address, and another
// program could answer there while palyrad does not run. Without systemd, or on a machine with
// several users, agents use the command hook over a socket in a private directory. A detached
// palyrad starts to work after its pid is recorded.
package service

import (
	"bytes"
	"context"
	_ "embed" // the units
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"palyra/internal/agent/files"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
)

//go:embed palyrad.service
var serviceUnit string

//go:embed palyrad.socket
var socketUnit string

//go:embed palyrad.plist
var launchAgent string

// The managers.
const (
	Systemd  = "systemd"
	Launchd  = "launchd"
	Detached = "detached"
)

// Palyrad is the program to start.
type Palyrad struct {
	files.Machine
	// Manager is Systemd, Launchd or Detached.
	Manager string
	// Program and Config are absolute paths.
	Program, Config string
	// Agents is host:port of the listener for agents.
	Agents string
	// StateDir is where palyrad has its state, and RunDir where a detached one has its
	// pid file and its log.
	StateDir, RunDir string
	// UID is the user's uid.
	UID int
}

// File is a file for a service manager.
type File struct{ Path, Text string }

// commandTime bounds a command of a service manager.
const commandTime = time.Minute

// run runs a command of a service manager.
func (p Palyrad) run(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, reason.Errorf(reason.ConfigInvalid, "`%s %s`: %w: %s", name, strings.Join(args, " "), err, text).
			WithRemedy("Check the service manager, or run palyrad without it: `palyra up --service detached`.")
	}
	return text, nil
}

// Detect returns the available manager of this user.
func Detect(ctx context.Context, m files.Machine) string {
	p := Palyrad{Machine: m}
	switch m.OS {
	case "linux":
		if _, err := p.run(ctx, "systemctl", "--user", "show-environment"); err == nil {
			return Systemd
		}
	case "darwin":
		if _, err := p.run(ctx, "launchctl", "managername"); err == nil {
			return Launchd
		}
	}
	return Detached
}

// environment returns the variables with locations, because a service does not inherit the
// variables of a shell.
func (p Palyrad) environment() []string {
	var list []string
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "PATH"} {
		if v := p.Getenv(name); v != "" && !strings.ContainsAny(v, "\n\x00") {
			list = append(list, name+"="+v)
		}
	}
	return append(list, "HOME="+p.Home)
}

// session returns the variables that a service manager would set, and palyrad's settings in
// variables. Other variables of the shell are not passed to a long-running program, because they
// may contain keys.
func (p Palyrad) session() []string {
	var list []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		client := slices.Contains([]string{"PALYRA_ADDRESS", "PALYRA_CREDENTIALS", "PALYRA_CONFIG"}, name)
		if strings.HasPrefix(name, "PALYRA_") && !client || slices.Contains([]string{"LANG", "TMPDIR", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SystemRoot", "APPDATA", "USERPROFILE"}, name) {
			list = append(list, v)
		}
	}
	return list
}

// Files returns the files for the manager.
func (p Palyrad) Files() ([]File, error) {
	for _, text := range []string{p.Program, p.Config, p.Agents} {
		if strings.ContainsAny(text, "\n\r\x00") {
			return nil, reason.Errorf(reason.ConfigInvalid, "%q cannot be used in a unit", text)
		}
	}
	switch p.Manager {
	case Systemd:
		var env []string
		for _, v := range p.environment() {
			env = append(env, unitQuoted(v))
		}
		service := fill(serviceUnit, "@PROGRAM@", unitQuoted(p.Program), "@CONFIG@", unitQuoted(p.Config), "@ENVIRONMENT@", strings.Join(env, " "))
		socket := fill(socketUnit, "@AGENTS@", p.Agents)
		return []File{
			{filepath.Join(p.UnitDir(), files.ServiceName+".service"), service},
			{filepath.Join(p.UnitDir(), files.ServiceName+".socket"), socket},
		}, nil
	case Launchd:
		var env []string
		for _, v := range p.environment() {
			name, value, _ := strings.Cut(v, "=")
			env = append(env, "\t\t<key>"+escaped(name)+"</key>\n\t\t<string>"+escaped(value)+"</string>")
		}
		return []File{{p.LaunchAgent(), fill(launchAgent, "@LABEL@", files.Label, "@PROGRAM@", escaped(p.Program), "@CONFIG@", escaped(p.Config),
			"@LOG@", escaped(p.Log()), "@ENVIRONMENT@", strings.Join(env, "\n"))}}, nil
	}
	return nil, nil
}

func fill(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

// unitQuoted quotes a word for a unit: specifiers and variables are taken literally.
func unitQuoted(text string) string {
	text = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(text)
	return `"` + text + `"`
}

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}

// Dirs returns the directories that the manager creates when it starts palyrad.
func (p Palyrad) Dirs() []string {
	if p.Manager != Systemd {
		return nil
	}
	return []string{filepath.Join(p.UnitDir(), "default.target.wants"), filepath.Join(p.UnitDir(), "sockets.target.wants")}
}

// Log returns the file of palyrad's log; with systemd, the log is in systemd's journal instead.
func (p Palyrad) Log() string { return filepath.Join(p.RunDir, "palyrad.log") }

// PIDFile returns the pid file of a detached palyrad.
func (p Palyrad) PIDFile() string { return filepath.Join(p.RunDir, "palyrad.pid") }

// LogHint describes how to read palyrad's log.
func (p Palyrad) LogHint() string {
	if p.Manager == Systemd {
		return "journalctl --user -u " + files.ServiceName
	}
	return p.Log()
}

// lastWords bounds the part of the log in an error.
const lastWords = 1 << 10

// LastWords returns the last lines of palyrad's log, after an introduction; "" with systemd,
// which keeps the log itself.
func (p Palyrad) LastWords() string {
	text, err := os.ReadFile(p.Log())
	if p.Manager == Systemd || err != nil {
		return ""
	}
	text = text[max(0, len(text)-lastWords):]
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return ":\n" + strings.Join(lines[max(0, len(lines)-6):], "\n")
}

// Start starts palyrad, or restarts it so that it reads its configuration.
func (p Palyrad) Start(ctx context.Context) error {
	switch p.Manager {
	case Systemd:
		for _, args := range [][]string{
			{"--user", "daemon-reload"},
			{"--user", "enable", "palyrad.socket", "palyrad.service"},
			// The socket starts first, because it cannot be passed to a running palyrad.
			{"--user", "stop", "palyrad.service"},
			{"--user", "restart", "palyrad.socket"},
			{"--user", "start", "palyrad.service"},
		} {
			if _, err := p.run(ctx, "systemctl", args...); err != nil {
				return err
			}
		}
		return nil
	case Launchd:
		domain := "gui/" + strconv.Itoa(p.UID)
		_, _ = p.run(ctx, "launchctl", "bootout", domain+"/"+files.Label) // an earlier one
		_, err := p.run(ctx, "launchctl", "bootstrap", domain, p.LaunchAgent())
		return err
	}
	if err := p.stopDetached(ctx); err != nil {
		return err
	}
	return p.startDetached()
}

// Stop stops palyrad and removes it from the manager. It does not remove the files.
func (p Palyrad) Stop(ctx context.Context) error {
	switch p.Manager {
	case Systemd:
		// A removed unit cannot be disabled.
		if _, err := os.Stat(filepath.Join(p.UnitDir(), files.ServiceName+".socket")); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		_, err := p.run(ctx, "systemctl", "--user", "disable", "--now", "palyrad.socket", "palyrad.service")
		return err
	case Launchd:
		domain := "gui/" + strconv.Itoa(p.UID)
		if _, err := p.run(ctx, "launchctl", "print", domain+"/"+files.Label); err != nil {
			return nil //nolint:nilerr // not loaded
		}
		_, err := p.run(ctx, "launchctl", "bootout", domain+"/"+files.Label)
		return err
	}
	return p.stopDetached(ctx)
}

// Forget makes the manager reload after its files were removed.
func (p Palyrad) Forget(ctx context.Context) error {
	if p.Manager == Systemd {
		_, err := p.run(ctx, "systemctl", "--user", "daemon-reload")
		return err
	}
	for _, path := range []string{p.PIDFile(), p.Log()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// startDetached starts palyrad independent of the terminal.
func (p Palyrad) startDetached() error {
	log, err := os.OpenFile(p.Log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening palyrad's log: %w", err)
	}
	defer log.Close()
	cmd, begin, err := gated(p.Program, "--config", p.Config)
	if err != nil {
		return err
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Home, log, log
	cmd.Env = append(p.environment(), p.session()...)
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return reason.Errorf(reason.ConfigInvalid, "starting %s: %w", p.Program, err).WithRemedy("Install palyrad next to palyra.")
	}
	pid := cmd.Process.Pid
	if err := os.WriteFile(p.PIDFile(), []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
		return errors.Join(fmt.Errorf("writing palyrad's pid file: %w", err), cmd.Process.Kill())
	}
	return errors.Join(begin(), cmd.Process.Release())
}

// stopTime is how long palyrad may take to end, in addition to the time for running calls.
const stopTime = time.Minute

// stopDetached stops the palyrad that holds the state directory, and waits for it. The pid file
// alone is not sufficient, because the pid may have been reused.
func (p Palyrad) stopDetached(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	pid, err := p.starting(ctx)
	if err != nil || pid == 0 {
		return err
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("finding palyrad: %w", err)
	}
	if err := terminate(process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping palyrad: %w", err)
	}
	for {
		now, err := statedir.HolderPID(p.StateDir)
		if err != nil || now != pid {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return reason.Errorf(reason.ConfigInvalid, "palyrad (pid %d) does not end", pid).WithRemedy("See %s; end it by hand, and run this again.", p.LogHint())
		}
	}
}

// startTime is how long palyrad may take from its start to locking the state directory.
const startTime = 5 * time.Second

// starting returns the process of the palyrad that holds the state directory, 0 for none. It waits
// for one that was just started.
func (p Palyrad) starting(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		pid, err := statedir.HolderPID(p.StateDir)
		if pid != 0 {
			return pid, nil
		}
		if err != nil { // it holds the directory, and is about to write its pid
			if pause(ctx, 50*time.Millisecond) != nil {
				return 0, err
			}
			continue
		}
		text, _ := os.ReadFile(p.PIDFile())
		started, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		if started == 0 || !alive(started) || pause(ctx, 50*time.Millisecond) != nil {
			return 0, nil
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
