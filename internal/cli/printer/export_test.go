package printer

// Table is table for the tests from outside.
func (a *Printer) Table(l Listing, records []Record) string { return a.table(l, records) }
