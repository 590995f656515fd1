package release

import (
	"errors"
	"fmt"
	"strings"

	"palyra/internal/core/lazyregexp"
)

// maxList is the maximum size of a list in bytes. A release has some thirty programs of a hundred
// bytes each.
const maxList = 64 << 10

// line is a line of a list: the digest, two spaces as sha256sum writes them, the platform as Go
// names it, and the program.
var line = lazyregexp.New(`^([0-9a-f]{64})  ([a-z0-9]+_[a-z0-9]+/[a-z0-9][a-z0-9.-]*)$`)

// parseList returns the digests ("sha256:" and hex) of a list by platform and program, such as
// linux_amd64/palyrad.
func parseList(text []byte) (map[string]string, error) {
	rest := string(text)
	if rest == "" {
		return nil, errors.New("the list is empty")
	}
	programs := map[string]string{}
	for number := 1; rest != ""; number++ {
		current, after, ok := strings.Cut(rest, "\n")
		if !ok {
			return nil, fmt.Errorf("line %d does not end with a line feed", number)
		}
		rest = after
		match := line.FindStringSubmatch(current)
		if match == nil {
			return nil, fmt.Errorf("line %d is not `DIGEST  OS_ARCHITECTURE/PROGRAM`", number)
		}
		if _, twice := programs[match[2]]; twice {
			return nil, fmt.Errorf("line %d lists %s a second time", number, match[2])
		}
		programs[match[2]] = "sha256:" + match[1]
	}
	return programs, nil
}
