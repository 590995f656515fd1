package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/skill/registry/registrytest"
)

func digestOf(data []byte) string { return canonical.Digest(data) }

var bob = access.Caller{Principal: access.User("bob")}

// part uploads the bytes of data between two offsets.
func (w *world) part(by access.Caller, data []byte, from, to int) (int64, error) {
	return w.Stage(w.t.Context(), by, registry.Part{Digest: digestOf(data), Size: int64(len(data)), Offset: int64(from), Data: data[from:to]})
}

func TestUploadInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	data := registrytest.Package(t, registrytest.Manifest, key)
	if n := must.Get(w.part(alice, data, 0, 100))(t); n != 100 {
		t.Fatalf("received %d", n)
	}
	if n := must.Get(w.part(alice, data, 0, 100))(t); n != 100 {
		t.Fatalf("a part that came twice made it %d", n)
	}
	n, err := w.part(alice, data, 200, 300)
	if refused(t, err, reason.InvalidInput, "100 bytes were received"); n != 100 {
		t.Errorf("received %d", n)
	}
	_, err = w.Inspect(t.Context(), digestOf(data))
	refused(t, err, reason.NotFound, "is staged")
	// An upload of the same digest by another principal is separate.
	forged := strings.Repeat("x", len(data))
	_ = must.Get(w.Stage(t.Context(), bob, registry.Part{Digest: digestOf(data), Size: int64(len(data)), Data: []byte(forged[:100])}))(t)
	_, err = w.Stage(t.Context(), bob, registry.Part{Digest: digestOf(data), Size: int64(len(data)), Offset: 100, Data: []byte(forged[100:])})
	refused(t, err, reason.VerificationFailed, digestOf(data))
	if n := must.Get(w.part(alice, data, 100, len(data)))(t); n != int64(len(data)) {
		t.Errorf("received %d", n)
	}
	if in := must.Get(w.Inspect(t.Context(), digestOf(data)))(t); in.Installable != nil {
		t.Error(in.Installable)
	}
	if n := must.Get(w.part(bob, data, 0, 10))(t); n != int64(len(data)) {
		t.Errorf("of a package that is there, %d bytes were received", n)
	}
	if files := w.packages(); len(files) != 1 {
		t.Errorf("left: %v", files)
	}
}

func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := registry.Part{Digest: "sha256:" + strings.Repeat("0", 64), Size: 10, Data: []byte("01234")}
	must.Get(w.Stage(t.Context(), alice, good))(t) // control
	for name, c := range map[string]struct {
		change func(*registry.Part)
		code   reason.Code
	}{
		"not a valid package digest": {func(p *registry.Part) { p.Digest = "../../x" }, reason.InvalidInput},
		"an upper-case one":          {func(p *registry.Part) { p.Digest = "sha256:" + strings.Repeat("A", 64) }, reason.InvalidInput},
		"a package too large":        {func(p *registry.Part) { p.Size = skill.MaxPackage + 1 }, reason.InputTooLarge},
		"a part too large":           {func(p *registry.Part) { p.Size, p.Data = skill.MaxPackage, make([]byte, registry.MaxPart+1) }, reason.InputTooLarge},
		"nothing":                    {func(p *registry.Part) { p.Data = nil }, reason.InvalidInput},
		"beyond its end":             {func(p *registry.Part) { p.Offset = 6 }, reason.InvalidInput},
		"before its begin":           {func(p *registry.Part) { p.Offset = -1 }, reason.InvalidInput},
		"very far":                   {func(p *registry.Part) { p.Offset = 1<<63 - 1 }, reason.InvalidInput},
		"another size":               {func(p *registry.Part) { p.Size = 11 }, reason.InvalidInput},
	} {
		p := good
		c.change(&p)
		if _, err := w.Stage(t.Context(), alice, p); reason.Of(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUploadsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := func(n int) error {
		_, err := w.Stage(t.Context(), alice, registry.Part{Digest: fmt.Sprintf("sha256:%064d", n), Size: 10, Data: []byte("x")})
		return err
	}
	for n := range 4 {
		must.Do(t, begin(n))
	}
	refused(t, begin(4), reason.RateLimited, "4 packages are being uploaded")
	must.Do(t, begin(3)) // continues an upload
	w.now = w.now.Add(10*time.Minute + time.Second)
	must.Do(t, begin(4))
	if files := w.packages(); len(files) != 1 {
		t.Errorf("left: %v", files)
	}
	digest := w.bring(registrytest.Manifest, key)
	w.now = w.now.Add(59 * time.Minute)
	must.Get(w.Inspect(t.Context(), digest))(t)
	w.now = w.now.Add(59 * time.Minute)
	must.Get(w.Inspect(t.Context(), digest))(t) // each use extends the lifetime
	w.now = w.now.Add(time.Hour + time.Second)
	_, err := w.Install(t.Context(), alice, digest)
	refused(t, err, reason.NotFound, digest)
	if files := w.packages(); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
}
