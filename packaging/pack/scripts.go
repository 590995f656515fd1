package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goreleaser/nfpm/v2"
)

// maintainerScripts completes the scripts in packaging/linux, which deb and rpm share, and writes
// them into a folder.
func maintainerScripts(o options, rel release, folder string) (nfpm.Scripts, error) {
	schema, err := storeSchema(o.root)
	if err != nil {
		return nfpm.Scripts{}, err
	}
	linux := filepath.Join(o.root, "packaging", "linux")
	checkFunction, err := os.ReadFile(filepath.Join(linux, "check.sh"))
	if err != nil {
		return nfpm.Scripts{}, err
	}
	user, err := userLine(filepath.Join(linux, "palyra.sysusers"))
	if err != nil {
		return nfpm.Scripts{}, err
	}
	fill := strings.NewReplacer("@CHECK@\n", string(checkFunction), "@SYSUSERS@", user, "@SCHEMA@", strconv.Itoa(schema), "@VERSION@", rel.version)
	written := nfpm.Scripts{
		PreInstall: filepath.Join(folder, "preinst"), PostInstall: filepath.Join(folder, "postinst"),
		PreRemove: filepath.Join(folder, "prerm"), PostRemove: filepath.Join(folder, "postrm"),
	}
	for _, path := range []string{written.PreInstall, written.PostInstall, written.PreRemove, written.PostRemove} {
		text, err := os.ReadFile(filepath.Join(linux, filepath.Base(path)+".sh"))
		if err != nil {
			return nfpm.Scripts{}, err
		}
		if err := writeFile(path, []byte(fill.Replace(string(text))), 0o755); err != nil {
			return nfpm.Scripts{}, err
		}
	}
	return written, nil
}

// storeSchema returns the newest schema version of the store that palyrad writes: the highest number
// of its migrations.
func storeSchema(root string) (int, error) {
	names, err := filepath.Glob(filepath.Join(root, "internal", "store", "sqlite", "migrations", "*.sql"))
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("%s has no migrations of the store: %w", root, errors.Join(err, os.ErrNotExist))
	}
	digits, _, _ := strings.Cut(filepath.Base(slices.Max(names)), "_")
	return strconv.Atoi(digits)
}

// userLine returns the line of a sysusers.d file that creates the user.
func userLine(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "u ") && !strings.Contains(line, "'") {
			return strings.TrimSpace(line), nil
		}
	}
	return "", fmt.Errorf("%s creates no user", name)
}
