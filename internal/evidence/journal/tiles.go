package journal

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Tiles reads the stored part of the Merkle tree. Indexes count from 0: index i of level 0 is
// the event with sequence number i+1.
type Tiles interface {
	// Tile returns the TileWidth hashes of a complete tile.
	Tile(level int, n int64) ([]byte, error)
	// TileRoots returns the roots of the complete tiles from..to-1 of a level.
	TileRoots(level int, from, to int64) ([][32]byte, error)
	// EventHashes returns the hashes of the events with index from..to-1.
	EventHashes(from, to int64) ([][32]byte, error)
}

// Tree is the Merkle tree over the first size events, read from its tiles. It is not safe for
// concurrent use.
type Tree struct {
	size  int64
	tiles Tiles
	cache map[tileKey][]tlog.Hash
}

type tileKey struct {
	level int
	n     int64
}

// NewTree returns the tree over the first size events.
func NewTree(size int64, tiles Tiles) *Tree {
	return &Tree{size: size, tiles: tiles, cache: map[tileKey][]tlog.Hash{}}
}

// Size returns the number of events in the tree.
func (t *Tree) Size() int64 { return t.size }

// Root returns the RFC 6962 hash of the tree.
func (t *Tree) Root() ([32]byte, error) { return tlog.TreeHash(t.size, t) }

// Edge rebuilds the growing edge, so that a writer can continue.
func (t *Tree) Edge() (*Edge, error) {
	partial := make([][][32]byte, 0, 4)
	for level, width := range PartialTiles(t.size) {
		n := t.size >> (tileHeight * (level + 1))
		hashes, err := t.partialTile(level, n, width)
		if err != nil {
			return nil, err
		}
		raw := make([][32]byte, len(hashes))
		for i, h := range hashes {
			raw[i] = h
		}
		partial = append(partial, raw)
	}
	return NewEdge(t.size, partial)
}

// ReadHashes implements tlog.HashReader over stored hash indexes.
func (t *Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		h, err := t.node(tlog.SplitStoredHashIndex(index))
		if err != nil {
			return nil, err
		}
		out[i] = h
	}
	return out, nil
}

// node returns the hash of the n-th complete subtree of height level.
func (t *Tree) node(height int, n int64) (tlog.Hash, error) {
	level, within := height/tileHeight, height%tileHeight
	first := n << within
	hashes, err := t.tile(level, first>>tileHeight)
	if err != nil {
		return tlog.Hash{}, err
	}
	at := int(first % TileWidth)
	if at+1<<within > len(hashes) {
		return tlog.Hash{}, fmt.Errorf("merkle node %d at height %d lies beyond a tree of %d events", n, height, t.size)
	}
	return subtree(hashes[at : at+1<<within]), nil
}

func (t *Tree) tile(level int, n int64) ([]tlog.Hash, error) {
	key := tileKey{level, n}
	if hashes, ok := t.cache[key]; ok {
		return hashes, nil
	}
	hashes, err := t.readTile(level, n)
	if err == nil {
		t.cache[key] = hashes
	}
	return hashes, err
}

func (t *Tree) readTile(level int, n int64) ([]tlog.Hash, error) {
	nodes := t.size >> (tileHeight * level)
	if have := nodes - n*TileWidth; have < TileWidth {
		return t.partialTile(level, n, max(have, 0))
	}
	raw, err := t.tiles.Tile(level, n)
	if err != nil {
		return nil, err
	}
	if len(raw) != TileWidth*tlog.HashSize {
		return nil, corrupt(firstOf(level, n), fmt.Sprintf("Merkle tile %d of level %d has %d bytes", n, level, len(raw)))
	}
	hashes := make([]tlog.Hash, TileWidth)
	for i := range hashes {
		copy(hashes[i][:], raw[i*tlog.HashSize:])
	}
	return hashes, nil
}

// partialTile derives the first width hashes of a tile that is not stored.
func (t *Tree) partialTile(level int, n, width int64) ([]tlog.Hash, error) {
	from := n * TileWidth
	read := func() ([][32]byte, error) { return t.tiles.EventHashes(from, from+width) }
	if level > 0 {
		read = func() ([][32]byte, error) { return t.tiles.TileRoots(level-1, from, from+width) }
	}
	raw, err := read()
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) != width {
		return nil, corrupt(firstOf(level, n), fmt.Sprintf("the Merkle tree lacks hashes at level %d: %d of %d", level, len(raw), width))
	}
	hashes := make([]tlog.Hash, width)
	for i, h := range raw {
		if hashes[i] = h; level == 0 {
			hashes[i] = leaf(h)
		}
	}
	return hashes, nil
}

// firstOf returns the sequence number of the first event below a tile.
func firstOf(level int, n int64) int64 { return n<<(tileHeight*(level+1)) + 1 }
