package command

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"sync"
	"time"
)

// identity identifies one state of a file's bytes without reading them. ctime changes with every
// write and cannot be set back by the owner.
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64
}

// settled is the minimum age of a file's last change for caching its digest. The kernel takes
// ctime from a coarse clock (4 ms a tick on many machines): two changes within one tick have the
// same ctime, so the identity would not show the second one.
const settled = time.Second

// maxHashes is the maximum number of entries of a cache; a full cache is cleared.
const maxHashes = 4096

// hashCache caches digests by identity. The zero value is ready for use.
type hashCache struct {
	mu   sync.Mutex
	sums map[identity]string
}

// sum returns "sha256:<hex>" over the file from its start. Its offset does not change.
func (c *hashCache) sum(f *os.File) (string, error) {
	began := time.Now()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	id, known := identify(info)
	if known {
		c.mu.Lock()
		sum, ok := c.sums[id]
		c.mu.Unlock()
		if ok {
			return sum, nil
		}
	}
	sum, err := hashFile(f, info.Size())
	if err != nil || !known || began.Sub(time.Unix(0, id.ctime)) < settled {
		return sum, err
	}
	// A write during reading changes ctime: such a digest is not cached.
	if after, err := f.Stat(); err == nil {
		if now, _ := identify(after); now == id {
			c.keep(id, sum)
		}
	}
	return sum, nil
}

func (c *hashCache) keep(id identity, sum string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sums == nil || len(c.sums) >= maxHashes {
		c.sums = make(map[identity]string)
	}
	c.sums[id] = sum
}

func hashFile(f *os.File, size int64) (string, error) {
	h := sha256.New()
	// One byte more than the size detects a file that grows.
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size+1)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
