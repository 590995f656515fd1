package console

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// Kept is the stored state of the console in the state directory.
type Kept struct {
	// Name is the first label of the console's host name on this machine. It is unique to this
	// gateway.
	Name string `json:"name"`
	// Origin is the origin at the last start. Passkeys belong to its name.
	Origin string `json:"origin"`
	// Was is the last origin with another name, "" for none.
	Was string `json:"was,omitempty"`
}

// ReadKept reads the stored state. Its error wraps fs.ErrNotExist if no state is stored.
func ReadKept(path string) (k Kept, err error) {
	text, err := keyfile.Read(path)
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	return k, err
}

// OriginOf returns the origin of the console that listens at an address: the configured origin,
// or by default a name below localhost with the address's port.
func (k Kept) OriginOf(configured string, at net.Addr) (Origin, error) {
	if configured != "" {
		return ParseOrigin(configured)
	}
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return Origin{}, fmt.Errorf("reading the address of the console: %w", err)
	}
	return ParseOrigin("http://" + k.Name + ".localhost:" + port)
}

// Keep returns the origin of the console that listens at an address. It stores the origin and
// the name of this gateway in the file at path. The name is created once.
func Keep(path, configured string, at net.Addr, log *slog.Logger) (string, error) {
	was, err := ReadKept(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", reason.Errorf(reason.ConfigInvalid, "reading the name of the console: %w", err).
			WithRemedy("Restore %s from a backup. If it is lost, remove it: the console then gets another name, and all passkeys must be enrolled again.", path)
	}
	now := was
	if now.Name == "" {
		now.Name = "palyra-" + strings.ToLower(rand.Text()[:10])
	}
	origin, err := now.OriginOf(configured, at)
	if err != nil {
		return "", err
	}
	now.Origin = origin.String()
	if before, err := ParseOrigin(was.Origin); err == nil && before.Name() != origin.Name() {
		now.Was = was.Origin
		log.Warn("the name of the console changed: passkeys enrolled under the old name are lost",
			slog.String("console", now.Origin), slog.String("note", "it was "+was.Origin))
	}
	if now == was {
		return now.Origin, nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return "", fmt.Errorf("writing the name of the console: %w", err)
	}
	return now.Origin, keyfile.Write(path, append(text, '\n'))
}
