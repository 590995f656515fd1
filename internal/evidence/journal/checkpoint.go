package journal

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/reason"
)

// Checkpoint is a signed statement about the tree, in the C2SP tlog-checkpoint format in a C2SP
// signed note.
type Checkpoint struct {
	// Origin is the gateway's id.
	Origin string
	// Size is the number of events that it covers.
	Size int64
	Root [32]byte
	// Note is the signed note of the checkpoint.
	Note string
}

// SignCheckpoint signs the root of a tree of size events. The origin is the signer's name.
func SignCheckpoint(signer note.Signer, size int64, root [32]byte) (Checkpoint, error) {
	text := checkpointText(signer.Name(), size, root)
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return Checkpoint{}, reason.Errorf(reason.JournalUnavailable, "signing a checkpoint: %w", err)
	}
	return Checkpoint{Origin: signer.Name(), Size: size, Root: root, Note: string(signed)}, nil
}

func checkpointText(origin string, size int64, root [32]byte) string {
	return origin + "\n" + strconv.FormatInt(size, 10) + "\n" + base64.StdEncoding.EncodeToString(root[:]) + "\n"
}

// ParseCheckpoint reads a note, verifies its signature and checks the origin; an empty origin
// accepts any. If known is a *Signers, the key must be permitted to sign the size. The note must be
// in canonical form: exactly one signature, and byte for byte as SignCheckpoint writes it.
func ParseCheckpoint(text, origin string, known note.Verifiers) (Checkpoint, error) {
	n, err := openNote(text, known)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	c, err := parseCheckpointText(n.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	if origin != "" && c.Origin != origin {
		return Checkpoint{}, fmt.Errorf("checkpoint: it is of gateway %q, not %q", c.Origin, origin)
	}
	if n.Sigs[0].Name != c.Origin {
		return Checkpoint{}, fmt.Errorf("checkpoint: %q signed for %q", n.Sigs[0].Name, c.Origin)
	}
	if keys, ok := known.(*Signers); ok {
		if err := keys.allows(n.Sigs[0], c.Size); err != nil {
			return Checkpoint{}, err
		}
	}
	c.Note = text
	return c, nil
}

// ParseUnverified reads a note without verifying its signature.
func ParseUnverified(text string) (Checkpoint, error) {
	said, _, found := strings.Cut(text, "\n\n")
	if !found {
		return Checkpoint{}, fmt.Errorf("checkpoint: it is not signed")
	}
	c, err := parseCheckpointText(said + "\n")
	c.Note = text
	return c, err
}

func parseCheckpointText(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return Checkpoint{}, fmt.Errorf("checkpoint: want three lines, origin, size and root hash")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint: size %q is not a number", lines[1])
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(raw) != 32 {
		return Checkpoint{}, fmt.Errorf("checkpoint: the root hash is not base64 of 32 bytes")
	}
	c := Checkpoint{Origin: lines[0], Size: size, Root: [32]byte(raw)}
	if c.Size < 0 || checkpointText(c.Origin, c.Size, c.Root) != text {
		return Checkpoint{}, fmt.Errorf("checkpoint: not in canonical form")
	}
	return c, nil
}

// openNote verifies a note. It must have exactly one signature, by a known key, and the same
// bytes when it is encoded again. Otherwise a note could be changed without breaking its
// signature: base64 has unused bits, and the format ignores signature lines of unknown keys.
func openNote(text string, known note.Verifiers) (*note.Note, error) {
	if known == nil {
		return nil, fmt.Errorf("no key for its verification is given")
	}
	n, err := note.Open([]byte(text), known)
	if err != nil {
		return nil, err
	}
	if len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 0 {
		return nil, fmt.Errorf("want exactly one signature")
	}
	sig := n.Sigs[0]
	raw, err := base64.StdEncoding.Strict().DecodeString(sig.Base64)
	if err != nil {
		return nil, fmt.Errorf("the signature is not in canonical base64")
	}
	if n.Text+"\n— "+sig.Name+" "+base64.StdEncoding.EncodeToString(raw)+"\n" != text {
		return nil, fmt.Errorf("not in canonical form")
	}
	return n, nil
}
