package jail

import (
	"os"
	"sync"

	"palyra/internal/exec/sandbox/seccomp"
)

// filters are the system call filters of a machine, by the grants of the runs. Each is made for the
// first run that needs it. It is safe for concurrent use.
type filters struct {
	options seccomp.Options

	mu   sync.Mutex
	made map[seccomp.Grants]*filter
}

// filter is one filter, without and with a listener. table is its content.
type filter struct {
	plain, watched file
	table          seccomp.Table
}

func newFilters(o seccomp.Options) *filters {
	return &filters{options: o, made: map[seccomp.Grants]*filter{}}
}

// with returns the filter with some grants. It belongs to the machine.
func (f *filters) with(g seccomp.Grants) (*filter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.made[g]; one != nil {
		return one, nil
	}
	o := f.options
	o.Grants = g
	one := &filter{table: seccomp.NewTable(o)}
	for to, watch := range map[*file]bool{&one.plain: false, &one.watched: true} {
		o.Watch = watch
		program, err := seccomp.Program(o)
		if err == nil {
			*to, err = share("filter", seccomp.Bytes(program), DataFile)
		}
		if err != nil {
			one.close()
			return nil, err
		}
	}
	f.made[g] = one
	return one, nil
}

func (f *filter) close() { closeAll([]*os.File{f.plain.File, f.watched.File}) }

func (f *filters) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.made {
		one.close()
	}
	clear(f.made)
}
