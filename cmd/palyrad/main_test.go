package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/reason"
)

// TestExplain: an error has the next step of its reason. An error caused by the limit of open
// files has the next step of that limit, with or without a reason.
func TestExplain(t *testing.T) {
	t.Parallel()
	full := &fs.PathError{Op: "open", Path: "/etc/services", Err: syscall.EMFILE}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("x"), ""},
		{reason.Errorf(reason.ConfigInvalid, "x").WithRemedy("Mend it."), "next: Mend it.\n"},
		{fmt.Errorf("opening the sandbox: %w", full), "LimitNOFILE"},
		{errors.Join(reason.Errorf(reason.ConfigInvalid, "x").WithRemedy("Mend it."), full), "LimitNOFILE"},
	} {
		var out strings.Builder
		explain(&out, c.err)
		if got := out.String(); !strings.HasPrefix(got, "palyrad: ") || !strings.Contains(got, c.want) || (c.want == "") != !strings.Contains(got, "next: ") {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
