package builtin

import (
	"bytes"
	"fmt"

	"palyra/internal/core/unified"
)

// previewBytes is the maximum size of the diffs of one preview.
const previewBytes = 256 << 10

// previewDiff joins the diffs of a call. A note reports truncation.
func previewDiff(diffs []unified.File) (text string, notes []string) {
	var b bytes.Buffer
	for _, d := range diffs {
		b.WriteString(d.Diff())
	}
	if b.Len() <= previewBytes {
		return b.String(), nil
	}
	cut := b.Bytes()[:previewBytes]
	if i := bytes.LastIndexByte(cut, '\n'); i >= 0 {
		cut = cut[:i+1]
	}
	return string(cut), []string{fmt.Sprintf("The diff has %d bytes and is cut after %d; the arguments of the call are complete.", b.Len(), len(cut))}
}
