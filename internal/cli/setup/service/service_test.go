package service

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/agent/files"
	"palyra/internal/core/must"
)

func palyrad(manager string) Palyrad {
	env := map[string]string{"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": "/home/a b/state", "SECRET_KEY": "x"}
	return Palyrad{
		Machine: files.Machine{Home: "/home/a b", OS: "linux", Getenv: func(name string) string { return env[name] }},
		Manager: manager, Program: "/opt/100%/palyrad", Config: `/home/a b/"x"/$HOME.toml`, Agents: "127.0.0.1:7145", RunDir: "/run/x",
	}
}

// TestUnits: special characters of paths are escaped, and the units do not inherit the shell's
// environment.
func TestUnits(t *testing.T) {
	t.Parallel()
	files := must.Get(palyrad(Systemd).Files())(t)
	if len(files) != 2 || files[0].Path != "/home/a b/.config/systemd/user/palyrad.service" {
		t.Fatalf("files: %+v", files)
	}
	for _, want := range []string{
		`ExecStart="/opt/100%%/palyrad" --config "/home/a b/\"x\"/$$HOME.toml"`,
		`Environment="XDG_STATE_HOME=/home/a b/state" "PATH=/usr/bin:/bin" "HOME=/home/a b"`, "Requires=palyrad.socket",
	} {
		if !strings.Contains(files[0].Text, want) {
			t.Errorf("%s is not in\n%s", want, files[0].Text)
		}
	}
	if strings.Contains(files[0].Text, "SECRET_KEY") || strings.Contains(files[0].Text+files[1].Text, "@") {
		t.Errorf("the unit has too much:\n%s%s", files[0].Text, files[1].Text)
	}
	if !strings.Contains(files[1].Text, "ListenStream=127.0.0.1:7145\nFileDescriptorName=agents\n") {
		t.Errorf("the socket:\n%s", files[1].Text)
	}
	p := palyrad(Systemd)
	p.Config = "/x\nExecStartPre=/bin/evil"
	if _, err := p.Files(); err == nil {
		t.Error("a line break got into a unit")
	}
}

func TestLaunchAgent(t *testing.T) {
	t.Parallel()
	p := palyrad(Launchd)
	p.Machine.OS, p.Program = "darwin", "/Applications/a & b/palyrad"
	files := must.Get(p.Files())(t)
	if files[0].Path != "/home/a b/Library/LaunchAgents/dev.palyra.palyrad.plist" || !strings.Contains(files[0].Text, "<string>/Applications/a &amp; b/palyrad</string>") {
		t.Errorf("the launch agent: %+v", files)
	}
	d := xml.NewDecoder(strings.NewReader(files[0].Text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestLimits: the unit has the same settings as the packaged user unit, except how it starts.
func TestLimits(t *testing.T) {
	t.Parallel()
	lines := func(text string) (list []string) {
		_, text, _ = strings.Cut(text, "[Service]\n")
		text, _, _ = strings.Cut(text, "\n[Install]")
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !strings.HasPrefix(line, "ExecStart=") && !strings.HasPrefix(line, "Environment=") {
				list = append(list, line)
			}
		}
		slices.Sort(list)
		return list
	}
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "..", "packaging", "linux", "palyrad.user.service")))(t)
	if got, want := lines(serviceUnit), lines(string(text)); !slices.Equal(got, want) {
		t.Errorf("the unit has %q\nwant %q", got, want)
	}
}
