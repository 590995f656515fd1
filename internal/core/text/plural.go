package text

import (
	"fmt"
	"strings"
)

// Plural formats a number with its noun in English: "1 call", "2 calls", "0 retries". The noun is
// in the singular and has a regular plural.
func Plural[N ~int | ~int32 | ~int64 | ~uint32 | ~uint64](n N, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "y") && !strings.HasSuffix(one, "ay") && !strings.HasSuffix(one, "ey"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(one, "y"))
	}
	return fmt.Sprintf("%d %ss", n, one)
}
