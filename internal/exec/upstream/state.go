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

// stateMount is the path of a server's state directory inside the sandbox.
const stateMount = sandbox.CacheMount + "/" + stateName

const stateName = "state"

// stateEnv are the variables that name the state directory. They include the variables of
// systemd, of the XDG base directories, and of server-memory and similar servers, which
// otherwise write next to their program. Variables that the server declares take precedence.
var stateEnv = []string{
	"STATE_DIRECTORY=" + stateMount,
	"XDG_STATE_HOME=" + stateMount + "/.local/state", "XDG_DATA_HOME=" + stateMount + "/.local/share", "XDG_CACHE_HOME=" + stateMount + "/.cache",
	"MEMORY_FILE_PATH=" + stateMount + "/memory.jsonl",
}

// keepsState reports whether a server has a state directory. A server that receives secrets as
// plain values has none, because it could store them there beyond their removal from the vault.
func (m *Manager) keepsState(s declared.Server) bool {
	return m.use.State != "" && !s.Remote() && len(s.Inject) == 0
}

// stateDir returns the state directory of a server for the owner of an instance.
func (m *Manager) stateDir(server string, owner access.Principal) string {
	name := "shared"
	if !owner.IsZero() {
		name = url.PathEscape(owner.String())
	}
	return filepath.Join(m.use.State, server, name)
}

// openState creates the state directory of an instance, if its server has one.
func (m *Manager) openState(l launch) ([]sandbox.Cache, error) {
	if !m.keepsState(l.server) {
		return nil, nil
	}
	dir := m.stateDir(l.server.Name, l.owner)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, reason.Errorf(reason.SpawnFailed, "making the state directory of the upstream server %s: %w", l.server.Name, err).
			WithRemedy("Give the user of palyrad write access to %s.", m.use.State)
	}
	if err := m.checkState(l.server.Name, dir); err != nil {
		return nil, err
	}
	return []sandbox.Cache{{Name: stateName, Dir: dir, Env: stateEnv}}, nil
}

// checkState returns an error for a state directory that exceeds the limit. A directory that
// cannot be measured counts as too large.
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

// endOversized ends the instances whose state exceeds the limit.
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

// removeState removes all state of a server. Its instances have ended.
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

// sweepState removes the state of servers that no longer exist, after an interrupted removal.
func (m *Manager) sweepState() {
	entries, err := os.ReadDir(m.use.State)
	if err != nil {
		return // no state exists yet
	}
	for _, entry := range entries {
		if _, err := m.find(entry.Name()); err == nil {
			continue
		}
		if err := m.removeState(entry.Name()); err != nil {
			m.use.Log.Warn("the state of a removed upstream server was not deleted", slog.String("upstream", entry.Name()), slog.String("error", err.Error()))
		}
	}
}
