package inside

import "strconv"

// StageGround is the first process of a sandbox that keeps the host's root: it
// mounts, and then does what StageInner does.
const StageGround = "ground"

// Ground is what such a sandbox mounts over the host's root, besides the
// workspace: empty file systems over the directories that programs share.
type Ground struct {
	// Tmp is the size of each empty file system, in bytes.
	Tmp int64
	// Proc mounts the process list of an own process namespace.
	Proc bool
	// Masks are covered with /dev/null.
	Masks []string
	// Files are put over files of the host that name its users and hosts. Those
	// below MountDir are made there.
	Files []File
	// Caches are mounted at CacheAt of their position.
	Caches []Source
	// Writable are the mounts that do not become read-only: Landlock covers
	// neither modes nor times.
	Writable []string
	// Loopback raises the loopback interface of an own network namespace.
	Loopback bool
}

// CacheAt is where the cache of a position is mounted.
func CacheAt(i int) string { return MountDir + "/cache-" + strconv.Itoa(i) }

// File is the content of a file that everybody may read.
type File struct {
	Path    string
	Content string
}

// Tmp is where programs look for a place of their own; TmpHome is made there.
const (
	Tmp     = "/tmp"
	TmpHome = "/tmp/home"
)
