package trusted

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// The format of an access control list in the kernel (linux/posix_acl_xattr.h): a version, then
// for each entry a tag, a permission and an id, in little-endian order.
const (
	aclAttribute = "system.posix_acl_access"
	aclUser      = 0x02
	aclGroup     = 0x08
	aclWrite     = 0x02
	aclHeader    = 4
	aclEntry     = 8
)

// sharedByList reports whether an access control list has an entry for a group, or for a user
// other than root and palyrad's, that may write to the file. The caller has checked that the
// group bits of the mode, which limit such entries, permit writing. A list that cannot be read
// counts as shared.
func sharedByList(path string) bool {
	list := make([]byte, 64<<10)
	n, err := unix.Lgetxattr(path, aclAttribute, list)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return false
	}
	if err != nil || n < aclHeader {
		return true
	}
	for entry := list[aclHeader:n]; len(entry) >= aclEntry; entry = entry[aclEntry:] {
		tag, permission := binary.LittleEndian.Uint16(entry), binary.LittleEndian.Uint16(entry[2:])
		id := int(binary.LittleEndian.Uint32(entry[4:]))
		if permission&aclWrite != 0 && (tag == aclGroup || tag == aclUser && id != 0 && id != os.Geteuid()) {
			return true
		}
	}
	return false
}
