//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// races are tests that each have a data race on a value that a library reads or writes.
const races = `package races

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

type record struct {
	Number int
	Text   string
	List   []int
}

// race runs both functions without an order between them. The goroutine of one ends after other:
// the detector reports no race with a goroutine whose history is gone.
func race(one, other func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() { one(); <-over; close(done) }()
	other()
	close(over)
	<-done
}

func TestMarshal(t *testing.T) {
	r := &record{List: []int{1}}
	race(func() { r.Number++ }, func() { json.Marshal(r) })
}

func TestMarshalDeeper(t *testing.T) {
	r := &record{List: []int{1}}
	race(func() { r.List[0]++ }, func() { json.Marshal(r) })
}

func TestUnmarshal(t *testing.T) {
	r := &record{}
	race(func() { r.Text = "a" }, func() { json.Unmarshal([]byte("{\"Text\":\"b\"}"), r) })
}

func TestFormat(t *testing.T) {
	r := &record{}
	race(func() { r.Number++ }, func() { fmt.Sprint(r) })
}

func TestBuffer(t *testing.T) {
	var b bytes.Buffer
	race(func() { b.WriteString("a") }, func() { b.WriteString("b") })
}

func TestMap(t *testing.T) {
	m := map[string]int{}
	race(func() { m["a"] = 1 }, func() { m["b"] = 1 })
}
`

// TestRacesAreReported: the race detector still reports each of these races, although it leaves out the
// packages of unwatched. Control: if encoding/json is left out as well, the race of TestMarshal is
// not reported.
func TestRacesAreReported(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the race detector requires a C compiler")
	}
	r := newRepository(t)
	r.write("races/races_test.go", races)
	run := func(more ...string) string {
		f := goFlags{race: true, count: 1}
		cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"test", "-v"}, f.arguments()...), append(more, "./races")...)...)
		cmd.Dir, cmd.Env = r.dir, append(os.Environ(), append(f.environment(), "GOFLAGS=-buildvcs=false")...)
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out)
	}
	out := run()
	for _, found := range testFunctions.FindAllString(races, -1) {
		name, _, _ := strings.Cut(strings.TrimPrefix(found, "func "), "(")
		if !strings.Contains(out, "--- FAIL: "+name+" ") {
			t.Errorf("the race of %s is not reported:\n%s", name, out)
		}
	}
	if out = run("-gcflags=encoding/json=-race=false", "-run=^TestMarshal$"); !strings.Contains(out, "--- PASS: TestMarshal ") {
		t.Errorf("the race is reported without encoding/json, too:\n%s", out)
	}
}
