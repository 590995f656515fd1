package inside

import "strconv"

// StageGround is the first process of a sandbox that keeps the host's root: it mounts, and then
// continues as StageInner.
const StageGround = "ground"

// Ground lists the mounts of such a sandbox over the host's root, in addition to the workspace:
// empty file systems over the directories that programs share.
type Ground struct {
	// Tmp is the size of each empty file system, in bytes.
	Tmp int64
	// Proc mounts the process list of a separate process namespace.
	Proc bool
	// Masks are covered with /dev/null.
	Masks []string
	// Files are mounted over host files that name its users and hosts. Files below MountDir are
	// created there.
	Files []File
	// Caches are mounted at CacheAt of their position.
	Caches []Source
	// Writable are the mounts that do not become read-only: Landlock covers neither modes nor
	// times.
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
