// Package page parses and creates the page tokens of lists that are read newest first. A token
// is the position of the last returned entry.
package page

import (
	"cmp"
	"strconv"

	"palyra/internal/core/reason"
)

// defaultSize is the page size of a request without one.
const defaultSize = 50

// Page is the request for one page of a list.
type Page struct {
	Size int
	// Before is the position before which the entries of the page are, 0 for the first page.
	Before int64
}

// Parse parses a page size and a page token. A malformed token is an error with reason
// InvalidInput.
func Parse(size int, token string) (Page, error) {
	p := Page{Size: cmp.Or(size, defaultSize)}
	if token == "" {
		return p, nil
	}
	var err error
	if p.Before, err = strconv.ParseInt(token, 10, 64); err != nil || p.Before < 1 {
		return p, reason.Errorf(reason.InvalidInput, "page token %q was not made by this service", token)
	}
	return p, nil
}

// Next returns the token of the page after n entries whose last one is at the position last, or ""
// if it was the last page.
func (p Page) Next(n int, last int64) string {
	if n < p.Size {
		return ""
	}
	return strconv.FormatInt(last, 10)
}
