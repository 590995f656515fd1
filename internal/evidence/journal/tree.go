package journal

import (
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// The tree is stored in tiles: tile (level, n) holds the 256 node hashes at height 8*level from
// index 256*n. Only complete tiles are stored, so an append writes one 8 KiB row per 256
// events. The nodes after the last complete tile are derived from the events themselves.
const (
	tileHeight = 8
	// TileWidth is the number of hashes in a tile.
	TileWidth = 1 << tileHeight
)

// Tile is a complete tile of the Merkle tree.
type Tile struct {
	Level int
	N     int64
	// Hashes are TileWidth hashes of 32 bytes.
	Hashes []byte
	// Root is the hash of the subtree, a node of the next level.
	Root [32]byte
}

// Edge is the growing edge of the tree in the writer's memory: for each level, the hashes of
// the incomplete tile.
type Edge struct {
	size   int64
	levels [][]tlog.Hash
}

// NewEdge rebuilds the edge of a tree of size events. partial[l] are the hashes after the last
// complete tile of level l, as counted by PartialTiles.
func NewEdge(size int64, partial [][][32]byte) (*Edge, error) {
	widths := PartialTiles(size)
	if len(partial) != len(widths) {
		return nil, fmt.Errorf("merkle edge of %d events: %d levels, want %d", size, len(partial), len(widths))
	}
	e := &Edge{size: size}
	for l, hashes := range partial {
		if int64(len(hashes)) != widths[l] {
			return nil, corrupt(size, fmt.Sprintf("the stored Merkle tree has %d hashes at level %d beyond its last tile, want %d", len(hashes), l, widths[l]))
		}
		level := make([]tlog.Hash, len(hashes), TileWidth)
		for i, h := range hashes {
			level[i] = h
		}
		e.levels = append(e.levels, level)
	}
	return e, nil
}

// PartialTiles returns, for each level, the number of hashes of a tree of size events after the
// last complete tile.
func PartialTiles(size int64) []int64 {
	var widths []int64
	for n := size; n > 0; n >>= tileHeight {
		widths = append(widths, n%TileWidth)
	}
	return widths
}

// Size returns the number of events in the tree.
func (e *Edge) Size() int64 { return e.size }

// Append adds the hash of the next event. It returns the tiles that this completes, lowest
// level first: none for 255 of 256 events.
func (e *Edge) Append(eventHash [32]byte) []Tile {
	node := leaf(eventHash)
	n := e.size
	e.size++
	var full []Tile
	for l := 0; ; l++ {
		if l == len(e.levels) {
			e.levels = append(e.levels, make([]tlog.Hash, 0, TileWidth))
		}
		e.levels[l] = append(e.levels[l], node)
		if len(e.levels[l]) < TileWidth {
			return full
		}
		n >>= tileHeight
		tile := Tile{Level: l, N: n, Hashes: flatten(e.levels[l]), Root: subtree(e.levels[l])}
		full = append(full, tile)
		e.levels[l] = e.levels[l][:0]
		node = tile.Root
	}
}

// Root returns the RFC 6962 hash of the tree.
func (e *Edge) Root() [32]byte {
	if e.size == 0 {
		root, _ := tlog.TreeHash(0, nil) // the hash of the empty text; cannot fail
		return root
	}
	r := rootBuilder{}
	for _, level := range e.levels {
		r.prepend(level)
	}
	return r.root
}

// rootBuilder joins complete subtrees from the right, because RFC 6962 splits a tree at the
// largest power of two from the left.
type rootBuilder struct {
	root  tlog.Hash
	begun bool
}

func (r *rootBuilder) prepend(level []tlog.Hash) {
	for len(level) > 0 {
		width := 1 << bits.TrailingZeros(uint(len(level)))
		r.add(subtree(level[len(level)-width:]))
		level = level[:len(level)-width]
	}
}

func (r *rootBuilder) add(h tlog.Hash) {
	if r.begun {
		h = tlog.NodeHash(h, r.root)
	}
	r.root, r.begun = h, true
}

// leaf is the RFC 6962 leaf hash of an event.
func leaf(eventHash [32]byte) tlog.Hash { return tlog.RecordHash(eventHash[:]) }

// subtree returns the root over neighbouring nodes, whose number is a power of two.
func subtree(nodes []tlog.Hash) tlog.Hash {
	if len(nodes) == 1 {
		return nodes[0]
	}
	half := len(nodes) / 2
	return tlog.NodeHash(subtree(nodes[:half]), subtree(nodes[half:]))
}

func flatten(hashes []tlog.Hash) []byte {
	b := make([]byte, 0, len(hashes)*tlog.HashSize)
	for _, h := range hashes {
		b = append(b, h[:]...)
	}
	return b
}
