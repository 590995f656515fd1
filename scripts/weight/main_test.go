//go:build linux

package main

import (
	"os"
	"testing"

	"palyra/internal/core/must"
)

// TestWeigh weighs the program of the test: the parts have the size of the file together, and each
// linked module has a part.
func TestWeigh(t *testing.T) {
	t.Parallel()
	program := must.Get(os.Executable())(t)
	w := must.Get(weigh(program))(t)
	sum := 0
	for _, bytes := range w.modules {
		sum += bytes
	}
	if size := must.Get(os.Stat(program))(t).Size(); int64(sum) != size || int64(w.size) != size {
		t.Errorf("the parts have %d of %d bytes", sum, size)
	}
	for _, part := range []string{"palyra", "golang.org/x/mod", standard, shared} {
		if w.modules[part] <= 0 {
			t.Errorf("%s has %d bytes", part, w.modules[part])
		}
	}
	if code := w.modules[standard]; code < w.size/10 {
		t.Errorf("of %d bytes the standard library has %d", w.size, code)
	}
}

func TestPackageOf(t *testing.T) {
	t.Parallel()
	for symbol, want := range map[string]string{
		"runtime.memmove": "runtime", "net/http.(*Client).Do": "net/http", "rsc.io/qr.Encode": "rsc.io/qr",
		"github.com/a/b/v2.F[go.shape.struct { c/d.E string }]": "github.com/a/b/v2", "type:.eq.github.com/a/b.T": "github.com/a/b",
		"gopkg.in/yaml%2ev3.Marshal": "gopkg.in/yaml.v3",
	} {
		if got := packageOf(symbol); got != want {
			t.Errorf("%s: %s, want %s", symbol, got, want)
		}
	}
}

func TestInvalidPrograms(t *testing.T) {
	t.Parallel()
	for _, programs := range [][]string{nil, {"main.go"}, {"absent"}} {
		if err := run(programs); err == nil {
			t.Errorf("%v was accepted", programs)
		}
	}
}
