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

// Kept is what the state directory keeps of the console.
type Kept struct {
	// Name is the first label of a host name on this machine that no other gateway has.
	Name string `json:"name"`
	// Origin is the one of the last start. Passkeys belong to its name.
	Origin string `json:"origin"`
	// Was is the last origin that had another name, "" for none.
	Was string `json:"was,omitempty"`
}

// ReadKept reads what a file keeps. Its error wraps fs.ErrNotExist where there is none.
func ReadKept(path string) (k Kept, err error) {
	text, err := keyfile.Read(path)
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	return k, err
}

// OriginOf is the origin of a console whose setting is configured, at an address.
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

// Keep returns the origin of the console that listens at an address, and writes it into
// the file at path, beside the name of this gateway, which it makes once.
func Keep(path, configured string, at net.Addr, log *slog.Logger) (string, error) {
	was, err := ReadKept(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", reason.Errorf(reason.ConfigInvalid, "reading the name of the console: %w", err).
			WithRemedy("Restore %s from a backup. If it is lost, remove it: the console gets another name, and passkeys are enrolled anew.", path)
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
		log.Warn("the console has another name than before: passkeys that were enrolled under the old one are lost",
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
