package sandbox

import "slices"

// starters are programs that are no launchers by trade and start whatever an
// argument names, such as find -exec.
var starters = []string{"find", "fd", "fdfind"}

// RunsAnything says why to allow the program with any arguments would be to allow
// any program, by the first of its names that says so; "" for other programs.
func (p Program) RunsAnything() string {
	for _, name := range p.Names() {
		switch family := Family(name); {
		case slices.Contains(interpreters, family):
			return shorten(name) + " runs whatever code it is given"
		case slices.Contains(shells, family), slices.Contains(launchers, family), slices.Contains(starters, family):
			return shorten(name) + " starts whatever program it is given"
		}
	}
	return ""
}
