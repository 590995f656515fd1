package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	zs "zombiezen.com/go/sqlite"
)

// mostOpened is how many files one statement of SQLite's opens at once: the database,
// the WAL, its index and a directory.
const mostOpened = 4

// withFiles joins an error of SQLite's, which says that a file cannot be opened and not
// why, with the limit of open files where that is why. SQLite keeps errno to itself, so
// that it is looked whether files can be opened at all; what SQLite opened meanwhile it
// may have closed again.
func withFiles(err error) error {
	if err == nil || zs.ErrCode(err).ToPrimary() != zs.ResultCantOpen || outOfFiles(err) {
		return err
	}
	for range mostOpened {
		f, openErr := os.Open(os.DevNull)
		if openErr == nil {
			defer f.Close()
			continue
		}
		if outOfFiles(openErr) {
			return fmt.Errorf("%w: %w", err, openErr)
		}
	}
	return err
}

func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
