package main

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUnlessBusy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		busy  int
		then  error
		tries int
		want  error
	}{
		"free":               {0, nil, 1, nil},
		"busy for a moment":  {3, nil, 4, nil},
		"fails":              {0, unix.ENOEXEC, 1, unix.ENOEXEC},
		"busy, then fails":   {2, unix.EACCES, 3, unix.EACCES},
		"written to forever": {1000, nil, 12, unix.ETXTBSY},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			err := unlessBusy(func() error {
				if tries++; tries <= c.busy {
					return unix.ETXTBSY
				}
				return c.then
			})
			if !errors.Is(err, c.want) || tries != c.tries {
				t.Errorf("%v after %d tries, want %v after %d", err, tries, c.want, c.tries)
			}
		})
	}
}
