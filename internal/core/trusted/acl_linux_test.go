package trusted

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// TestAccessControlLists: a file that an access control list lets another user write is not
// trusted, even if its group has no other members. Controls: a list for root, and a list that
// lets others read.
func TestAccessControlLists(t *testing.T) {
	t.Parallel()
	const none = ^uint32(0)
	for name, c := range map[string]struct {
		permission uint16
		user       uint32
		trusted    bool
	}{
		"another user writes": {6, 54321, false},
		"another user reads":  {4, 54321, true},
		"root writes":         {6, 0, true},
	} {
		path := filepath.Join(t.TempDir(), "10.cedar")
		must.Do(t, os.WriteFile(path, nil, 0o644))
		list := binary.LittleEndian.AppendUint32(nil, 2)
		for _, e := range []struct {
			tag, permission uint16
			id              uint32
		}{{0x01, 6, none}, {aclUser, c.permission, c.user}, {0x04, 6, none}, {0x10, 6, none}, {0x20, 4, none}} {
			list = binary.LittleEndian.AppendUint16(list, e.tag)
			list = binary.LittleEndian.AppendUint16(list, e.permission)
			list = binary.LittleEndian.AppendUint32(list, e.id)
		}
		if err := unix.Setxattr(path, aclAttribute, list, 0); errors.Is(err, unix.ENOTSUP) {
			t.Skip("the file system of temporary files has no access control lists")
		} else if err != nil {
			t.Fatal(err)
		}
		if got := sharedByList(path); got == c.trusted {
			t.Errorf("%s: shared by the list: %t", name, got)
		}
		if _, err := Check(path, nil); !c.trusted && (err == nil || !strings.Contains(err.Error(), "may write to it")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
