// Package output captures the output of a program. It keeps the start and the end of each
// stream within a limit, and computes the digest of the whole stream. After the program has
// ended, it stops waiting for descriptors that another process keeps open. It does not change
// bytes; code that displays them must escape them.
package output

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"

	"palyra/internal/exec/sandbox"
)

// Capture keeps the start and the end of one stream and a digest of all of it. It must be written
// by one goroutine, and read only after that. It uses no more memory than the received and the
// kept output.
type Capture struct {
	head, tail []byte
	// next is the next write position in the ring of the tail, once it is full.
	next  int
	keep  int64
	total int64
	hash  hash.Hash
}

// NewCapture returns a Capture that keeps up to keep bytes, half from the start and half from the
// end.
func NewCapture(keep int64) *Capture {
	return &Capture{keep: keep, hash: sha256.New()}
}

// Write never fails; it implements io.Writer.
func (c *Capture) Write(chunk []byte) (int, error) {
	n := len(chunk)
	c.total += int64(n)
	c.hash.Write(chunk)
	if room := int(c.keep-c.keep/2) - len(c.head); room > 0 {
		take := min(room, len(chunk))
		c.head = append(c.head, chunk[:take]...)
		chunk = chunk[take:]
	}
	c.ring(chunk)
	return n, nil
}

func (c *Capture) ring(chunk []byte) {
	size := int(c.keep / 2)
	if len(chunk) > size {
		chunk = chunk[len(chunk)-size:]
	}
	if room := size - len(c.tail); room > 0 {
		take := min(room, len(chunk))
		c.tail = append(c.tail, chunk[:take]...)
		chunk = chunk[take:]
	}
	for len(chunk) > 0 {
		n := copy(c.tail[c.next:], chunk)
		chunk = chunk[n:]
		c.next = (c.next + n) % size
	}
}

// Stream returns the captured output.
func (c *Capture) Stream() sandbox.Stream {
	s := sandbox.Stream{Total: c.total, SHA256: digest(c.hash)}
	s.KeptSHA256 = s.SHA256
	tail := slices.Concat(c.tail[c.next:], c.tail[:c.next])
	if c.total <= c.keep {
		s.Head = append(c.head, tail...)
		return s
	}
	s.Head, s.Tail, s.Truncated = c.head, tail, true
	kept := sha256.New()
	kept.Write(s.Head)
	kept.Write(s.Tail)
	s.KeptSHA256 = digest(kept)
	return s
}

func digest(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }
