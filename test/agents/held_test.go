package agents

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/systemd"
)

// TestHeldPort: a service manager holds the port of Claude Code's HTTP hook. While palyrad does not
// run, no other program can use the port, and no tool runs.
func TestHeldPort(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	dir := t.TempDir()
	p.more = []string{systemd.Dir + "=" + dir, "XDG_CONFIG_HOME=" + filepath.Join(p.home, ".config")}
	must.Do(t, os.Symlink(must.Get(os.Executable())(t), filepath.Join(p.bin, "systemctl")))
	t.Cleanup(func() { p.palyra("down").Want(t, 0) })
	p.palyra("up", "--yes", "--service", "systemd").Want(t, 0)
	settings := string(must.Get(os.ReadFile(filepath.Join(p.home, ".claude/settings.json")))(t))
	if !strings.Contains(settings, `"type": "http"`) {
		t.Fatalf("Claude Code does not ask by http:\n%s", settings)
	}
	p.tries(claude, "http hook on a held port, policy allows", ran)

	p.manages("stop", "palyrad.service")
	if l, err := net.Listen("tcp", p.agentsAddress()); err == nil {
		t.Errorf("another program gets the port while palyrad does not run: %v", l.Close())
	}
	p.tries(claude, "http hook on a held port, palyrad does not run", blocked)
	p.manages("start", "palyrad.service")
	must.Eventually(t, "palyrad answers", func() (bool, string) {
		r := p.palyra("status")
		return r.Code == 0, r.Err
	})
	p.tries(claude, "http hook on a held port, palyrad runs again", ran)
}

// manages runs a command of the service manager.
func (p *person) manages(args ...string) {
	p.t.Helper()
	p.program("systemctl", append([]string{"--user"}, args...)...).Want(p.t, 0)
}
