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

// states are the state directories of the programs of servers.
type states struct {
	// dir is their parent, "" for none.
	dir string
	// limit is the maximum size of each in bytes, 0 for no limit.
	limit int64
}

// keepsState reports whether a server has a state directory. A server that receives secrets as
// plain values has none, because it could store them there beyond their removal from the vault.
func (sd states) keepsState(s declared.Server) bool {
	return sd.dir != "" && !s.Remote() && len(s.Inject) == 0
}

// stateDir returns the state directory of a server for the owner of an instance.
func (sd states) stateDir(server string, owner access.Principal) string {
	name := "shared"
	if !owner.IsZero() {
		name = url.PathEscape(owner.String())
	}
	return filepath.Join(sd.dir, server, name)
}

// openState creates the state directory of an instance, if its server has one.
func (sd states) openState(l launch) ([]sandbox.Cache, error) {
	if !sd.keepsState(l.server) {
		return nil, nil
	}
	dir := sd.stateDir(l.server.Name, l.owner)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, reason.Errorf(reason.SpawnFailed, "making the state directory of the upstream server %s: %w", l.server.Name, err).
			WithRemedy("Give the user of palyrad write access to %s.", sd.dir)
	}
	if err := sd.checkState(l.server.Name, dir); err != nil {
		return nil, err
	}
	return []sandbox.Cache{{Name: stateName, Dir: dir, Env: stateEnv}}, nil
}

// checkState returns an error for a state directory that exceeds the limit. A directory that
// cannot be measured counts as too large.
func (sd states) checkState(server, dir string) error {
	if sd.limit <= 0 {
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
	if err == nil && total <= sd.limit {
		return nil
	}
	return reason.Errorf(reason.QuotaExceeded, "the state of the upstream server %s takes more than %d bytes (process_runner.cache_limit_bytes)", server, sd.limit).
		WithRemedy("Raise the limit, or remove the server and add it again, which removes its state.")
}

// removeState removes all state of a server. Its instances have ended.
func (sd states) removeState(server string) error {
	dir, err := os.Open(sd.dir)
	if errors.Is(err, fs.ErrNotExist) || sd.dir == "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the state of the upstream server %s: %w", server, err)
	}
	defer dir.Close()
	if _, err := os.Lstat(filepath.Join(sd.dir, server)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return overlay.RemoveTree(dir, server)
}

// sweep removes the state of servers that no longer exist, after an interrupted removal.
func (sd states) sweep(log *slog.Logger, exists func(server string) bool) {
	entries, err := os.ReadDir(sd.dir)
	if err != nil {
		return // no state exists yet
	}
	for _, entry := range entries {
		if exists(entry.Name()) {
			continue
		}
		if err := sd.removeState(entry.Name()); err != nil {
			log.Warn("the state of a removed upstream server was not deleted", slog.String("upstream", entry.Name()), slog.String("error", err.Error()))
		}
	}
}
