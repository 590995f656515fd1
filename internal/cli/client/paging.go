package client

import (
	"palyra/internal/cli/printer"
)

// Collect gathers the records of a list page by page until it ends or there
// are limit of them; 0 means all. page asks for one page of at most size and
// reports whether another follows. more is true when the limit cut the list.
func Collect(limit int, page func(size int32) (records []printer.Record, more bool, err error)) (all []printer.Record, more bool, err error) {
	for {
		records, more, err := page(pageSize(limit - len(all)))
		if err != nil {
			return nil, false, err
		}
		all = append(all, records...)
		if full := limit > 0 && len(all) >= limit; full || !more {
			return all, more, nil
		}
	}
}

// pageSize asks for what is still wanted, within what the API allows.
func pageSize(wanted int) int32 {
	const most = 500
	if wanted <= 0 || wanted > most {
		return most
	}
	return int32(wanted)
}

// RecordsOf makes a record of each.
func RecordsOf[T any](list []T, of func(T) printer.Record) []printer.Record {
	records := make([]printer.Record, len(list))
	for i, v := range list {
		records[i] = of(v)
	}
	return records
}
