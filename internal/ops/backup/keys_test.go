package backup

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"filippo.io/age"

	"palyra/internal/core/must"
)

// TestExpensiveArchiveIsRefused: an archive whose passphrase parameters need gigabytes of
// memory is refused without allocating them. Control: an archive that needs little memory.
func TestExpensiveArchiveIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "passphrase")
	must.Do(t, os.WriteFile(file, []byte("a passphrase of many words\n"), 0o600))
	identities := must.Get(Identities("", file))(t)
	for work, refused := range map[int]bool{10: false, mostWork + 1: true, 30: true} {
		stanza := &age.Stanza{
			Type: "scrypt", Body: make([]byte, 32),
			Args: []string{base64.RawStdEncoding.EncodeToString(make([]byte, 16)), strconv.Itoa(work)},
		}
		_, err := identities[0].Unwrap([]*age.Stanza{stanza})
		if err == nil || strings.Contains(err.Error(), "work factor too large") != refused {
			t.Errorf("work factor %d: %v", work, err)
		}
	}
}
