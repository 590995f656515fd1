package inside

import "strconv"

// StageGround is the first process of a sandbox that keeps the host's root. It makes the mounts
// and then continues as StageInner.
const StageGround = "ground"

// Ground lists the mounts over the host's root in a sandbox with StageGround, in addition to
// the workspace. They include empty file systems over the directories that programs share.
type Ground struct {
	// Tmp is the size of each empty file system, in bytes.
	Tmp int64
	// Proc mounts the proc file system of a separate process namespace.
	Proc bool
	// Masks are covered with /dev/null.
	Masks []string
	// Files are mounted over the host's files that list users and hosts. Files below MountDir are
	// created there.
	Files []File
	// Caches are mounted at CacheAt of their position.
	Caches []Source
	// Writable are the mounts that do not become read-only. The other mounts become read-only
	// because Landlock does not restrict changes of modes and times.
	Writable []string
	// Loopback brings up the loopback interface of a separate network namespace.
	Loopback bool
}

// CacheAt returns the mount point of the cache at a position.
func CacheAt(i int) string { return MountDir + "/cache-" + strconv.Itoa(i) }

// File is the content of a file that every user may read.
type File struct {
	Path    string
	Content string
}

// Tmp is the directory for temporary files; TmpHome is created there.
const (
	Tmp     = "/tmp"
	TmpHome = "/tmp/home"
)
