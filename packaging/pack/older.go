package main

import (
	"context"
	"path/filepath"
	"runtime"
)

// writeLinuxPackages writes the deb and the rpm of this machine's architecture alone. With an
// earlier date than that of the commit, the checks upgrade from them; their compression is fast.
func writeLinuxPackages(_ context.Context, o options) error {
	rel, err := o.release()
	if err != nil {
		return err
	}
	if err := makeFolder(o.out); err != nil {
		return err
	}
	for _, format := range linuxFormats {
		data, err := linuxPackage(o, rel, format, runtime.GOARCH, "gzip")
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(o.out, format.fileName(rel.version, runtime.GOARCH)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
