package approval

// Counts are the numbers of pending records and standing grants.
type Counts struct {
	// Pending is how many records wait for votes.
	Pending int
	// Grants is how many grants stand.
	Grants int
}

// Counts returns the numbers of now, without reading the store.
func (d *Desk) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Counts{Grants: len(d.grants.byID)}
	for _, e := range d.open {
		if e.rec.State == Pending {
			c.Pending++
		}
	}
	return c
}
