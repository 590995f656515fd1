package journal

import (
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"palyra/internal/core/text"
)

// maxLag is the maximum number of events between a checkpoint's size and the event that
// contains the checkpoint. The writer's queue keeps the actual number far below.
const maxLag = 1 << 20

// frontier has the roots of the complete subtrees of a tree of size events, largest first.
// These roots are sufficient to append events and to compute the root.
type frontier struct {
	size  int64
	roots []tlog.Hash
}

// treeFrontier reads the frontier of a stored tree.
func treeFrontier(t *Tree) (frontier, error) {
	f := frontier{size: t.size}
	for rest, done := t.size, int64(0); rest > 0; {
		height := bits.Len64(uint64(rest)) - 1
		h, err := t.node(height, done>>height)
		if err != nil {
			return f, err
		}
		f.roots = append(f.roots, h)
		done += 1 << height
		rest -= 1 << height
	}
	return f, nil
}

// valid reports whether the number of roots matches the size.
func (f *frontier) valid() bool {
	return f.size >= 0 && len(f.roots) == bits.OnesCount64(uint64(f.size))
}

func (f *frontier) append(eventHash [32]byte) {
	node := leaf(eventHash)
	for merge := bits.TrailingZeros64(^uint64(f.size)); merge > 0; merge-- {
		last := len(f.roots) - 1
		node = tlog.NodeHash(f.roots[last], node)
		f.roots = f.roots[:last]
	}
	f.roots = append(f.roots, node)
	f.size++
}

func (f *frontier) root() [32]byte {
	if f.size == 0 {
		root, _ := tlog.TreeHash(0, nil) // the hash of the empty text; cannot fail
		return root
	}
	r := rootBuilder{}
	for _, h := range slices.Backward(f.roots) {
		r.add(h)
	}
	return r.root
}

// roots follows a chain and returns the tree's root at the sizes of checkpoints, which are
// slightly smaller than the sequence numbers of the events that contain them.
type roots struct {
	base  frontier
	queue [][32]byte // hashes of the events after base
}

func (r *roots) push(eventHash [32]byte) {
	r.queue = append(r.queue, eventHash)
	if len(r.queue) > 2*maxLag {
		r.settle(r.base.size + maxLag)
	}
}

// settle discards the data for sizes below size.
func (r *roots) settle(size int64) {
	n := size - r.base.size
	for _, h := range r.queue[:n] {
		r.base.append(h)
	}
	r.queue = slices.Delete(r.queue, 0, int(n))
}

// at returns the root of the tree of size events. It returns an error for a size below the base
// or after the last event.
func (r *roots) at(size int64) ([32]byte, error) {
	n := size - r.base.size
	if n < 0 || n > int64(len(r.queue)) {
		return [32]byte{}, fmt.Errorf("it covers %s, not between %d and %d", text.Plural(size, "event"), r.base.size, r.size())
	}
	f := frontier{size: r.base.size, roots: slices.Clone(r.base.roots)}
	for _, h := range r.queue[:n] {
		f.append(h)
	}
	return f.root(), nil
}

func (r *roots) size() int64 { return r.base.size + int64(len(r.queue)) }
