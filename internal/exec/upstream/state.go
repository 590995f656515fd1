package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/workspace/overlay"
)

// stateMount is the state directory of a server as its program sees it.
const stateMount = sandbox.CacheMount + "/" + stateName

const stateName = "state"

// stateEnv tells a program of its state directory: by the variable of systemd, by those of
// the XDG base directories, and by that of server-memory and its kin, which write beside
// their program otherwise. What the server declares itself goes before.
var stateEnv = []string{
	"STATE_DIRECTORY=" + stateMount,
	"XDG_STATE_HOME=" + stateMount + "/.local/state", "XDG_DATA_HOME=" + stateMount + "/.local/share", "XDG_CACHE_HOME=" + stateMount + "/.cache",
	"MEMORY_FILE_PATH=" + stateMount + "/memory.jsonl",
}

// keepsState reports whether a server has a state directory. One that gets secrets as they
// are has none: it could keep them there when they are gone from the vault.
func (m *Manager) keepsState(s declared.Server) bool {
	return m.use.State != "" && !s.Remote() && len(s.Inject) == 0
}

// stateDir is the state directory of a server for the owner of an instance.
func (m *Manager) stateDir(server string, owner access.Principal) string {
	name := "shared"
	if !owner.IsZero() {
		name = url.PathEscape(owner.String())
	}
	return filepath.Join(m.use.State, server, name)
}

// openState makes the state directory of an instance, if its server has one.
func (m *Manager) openState(l launch) ([]sandbox.Cache, error) {
	if !m.keepsState(l.server) {
		return nil, nil
	}
	dir := m.stateDir(l.server.Name, l.owner)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, reason.Errorf(reason.SpawnFailed, "making the state directory of the upstream server %s: %w", l.server.Name, err).
			WithRemedy("Let the user that palyrad runs as write to %s.", m.use.State)
	}
	if err := m.checkState(l.server.Name, dir); err != nil {
		return nil, err
	}
	return []sandbox.Cache{{Name: stateName, Dir: dir, Env: stateEnv}}, nil
}

// checkState refuses a state directory that has grown beyond the limit. One that cannot be
// measured counts as too large.
func (m *Manager) checkState(server, dir string) error {
	if m.use.StateLimit <= 0 {
		return nil
	}
	var total int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	if err == nil && total <= m.use.StateLimit {
		return nil
	}
	return reason.Errorf(reason.QuotaExceeded, "the state of the upstream server %s takes more than %d bytes (process_runner.cache_limit_bytes)", server, m.use.StateLimit).
		WithRemedy("Raise the limit, or remove the server and add it again, which removes its state.")
}

// endOversized ends the instances whose state has grown beyond the limit.
func (m *Manager) endOversized() {
	m.sweep(func(in *instance) bool {
		if !m.keepsState(in.server) {
			return false
		}
		err := m.checkState(in.server.Name, m.stateDir(in.server.Name, in.owner))
		if err == nil {
			return false
		}
		m.noted(in.server.Name, func(k *kept) { k.problem = reason.Known(err, reason.QuotaExceeded) })
		return true
	})
}

// removeState removes all that a server kept. Its instances have ended.
func (m *Manager) removeState(server string) error {
	dir, err := os.Open(m.use.State)
	if errors.Is(err, fs.ErrNotExist) || m.use.State == "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the state of the upstream server %s: %w", server, err)
	}
	defer dir.Close()
	if _, err := os.Lstat(filepath.Join(m.use.State, server)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return overlay.RemoveTree(dir, server)
}

// sweepState removes the state of servers that there are no more: of a removal that was cut
// off.
func (m *Manager) sweepState() {
	entries, err := os.ReadDir(m.use.State)
	if err != nil {
		return // there is none yet
	}
	for _, entry := range entries {
		if _, err := m.find(entry.Name()); err == nil {
			continue
		}
		if err := m.removeState(entry.Name()); err != nil {
			m.use.Log.Warn("the state of an upstream server that was removed is left", slog.String("upstream", entry.Name()), slog.String("error", err.Error()))
		}
	}
}
