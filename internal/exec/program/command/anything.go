package command

import "slices"

// starters are programs that are not launchers but start a program that an argument names, such
// as find -exec.
var starters = []string{"find", "fd", "fdfind"}

// RunsAnything returns the reason why allowing the program with any arguments would allow any
// program, determined by the first matching name; "" for other programs.
func (p Program) RunsAnything() string {
	for _, name := range p.Names() {
		switch family := Family(name); {
		case slices.Contains(interpreters, family):
			return shorten(name) + " runs any code that it is given"
		case slices.Contains(shells, family), slices.Contains(launchers, family), slices.Contains(starters, family):
			return shorten(name) + " starts any program that it is given"
		}
	}
	return ""
}
