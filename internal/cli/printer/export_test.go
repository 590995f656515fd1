package printer

// Table exports table for tests.
func (a *Printer) Table(l Listing, records []Record) string { return a.layout().rows(l, records) }
