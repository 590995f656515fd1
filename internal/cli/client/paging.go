package client

import (
	"palyra/internal/cli/printer"
)

// Pages returns the next page of a list, of at most size, and reports whether another follows.
type Pages[T any] func(size int32) (list []T, more bool, err error)

// Collect reads a list page by page until it ends or has limit entries; 0 means all. more is true
// if the limit cut the list.
func Collect[T any](limit int, page Pages[T]) (all []T, more bool, err error) {
	for {
		list, more, err := page(pageSize(limit - len(all)))
		if err != nil {
			return nil, false, err
		}
		all = append(all, list...)
		if full := limit > 0 && len(all) >= limit; full || !more {
			return all, more, nil
		}
	}
}

// pageSize returns the size to request, within the limits of the API.
func pageSize(wanted int) int32 {
	const most = 500
	if wanted <= 0 || wanted > most {
		return most
	}
	return int32(wanted)
}

// List prints at most limit of a list; 0 means all.
func List[T any](a *App, l printer.Listing, limit int, page Pages[T], record func(T) printer.Record) error {
	list, more, err := Collect(limit, page)
	if err != nil {
		return err
	}
	if more {
		a.Say("the list is truncated; see --limit")
	}
	return a.PrintList(l, printer.Records(list, record))
}
