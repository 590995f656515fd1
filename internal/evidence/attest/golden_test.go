package attest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/internal/evidence/attest"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	goldenKeys     = "testdata/keyset.json"
	goldenEnvelope = "testdata/envelope.json"
	specification  = "../../../docs/format/attestation.md"
)

// TestGolden signs the example of the specification and expects the same bytes: the format must
// not change by accident. Ed25519 and RFC 8785 are deterministic, and the certificates are
// stored.
func TestGolden(t *testing.T) {
	t.Parallel()
	if *update {
		writeGolden(t)
	}
	set := readKeySet(t)
	key := seed('k')
	n := must.Get(attest.NewNotary(attest.NotaryConfig{Signer: key, Chain: chainOf(t, set), Gateway: gateway, Now: at(epoch)}))(t)
	want := read(t, goldenEnvelope)
	got := mustSign(t, n, execution())
	if !bytes.Equal(got.JSON, want) {
		t.Errorf("the envelope changed; if the format may change, make a new predicate type:\n%s\nwas\n%s", got.JSON, want)
	}
	if _, err := attest.Verify(want, set); err != nil {
		t.Error(err)
	}
}

// An attestation from before change sets and violations existed verifies.
func TestOlderAttestationVerifies(t *testing.T) {
	t.Parallel()
	set := must.Get(attest.ParseKeySet(read(t, "testdata/keyset_older.json")))(t)
	v := must.Get(attest.Verify(read(t, "testdata/envelope_older.json"), set))(t)
	if p := v.Predicate; p.Changes != nil || p.Violations != nil || p.Isolation.Rung != "" || p.Invocation.Tool != "process.run" {
		t.Errorf("got %+v", p)
	}
}

// TestSpecification: the example in the document equals the golden file.
func TestSpecification(t *testing.T) {
	t.Parallel()
	_, payload, _ := split(t, read(t, goldenEnvelope))
	doc := string(read(t, specification))
	_, rest, ok := strings.Cut(doc, "<!-- example statement -->\n```json\n")
	example, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatal("the document has no example statement")
	}
	got := must.Get(canonical.JSON([]byte(example)))(t)
	if !bytes.Equal(got, payload) {
		t.Errorf("the example in the document is not the golden statement:\n%s\nwant\n%s", got, payload)
	}
	for _, name := range memberNames(t, payload) {
		if !strings.Contains(doc[:strings.Index(doc, "<!-- example")], "`"+name+"`") {
			t.Errorf("the document does not describe the member %q", name)
		}
	}
}

func memberNames(t *testing.T, text []byte) []string {
	t.Helper()
	var v any
	must.Do(t, json.Unmarshal(text, &v))
	var names []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				switch name {
				case "namespaces", "rlimits": // their members have the kernel's names
					names = append(names, name)
					continue
				}
				names = append(names, name)
				walk(member)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return names
}

func writeGolden(t *testing.T) {
	t.Helper()
	must.Do(t, os.MkdirAll("testdata", 0o755))
	n := newNotary(t, newAuthority(t))
	keys := must.Get(n.KeySet().JSON())(t)
	env := mustSign(t, n, execution())
	for name, data := range map[string][]byte{goldenKeys: keys, goldenEnvelope: env.JSON} {
		must.Do(t, os.WriteFile(name, data, 0o644))
	}
	_, payload, _ := split(t, env.JSON)
	var pretty bytes.Buffer
	must.Do(t, json.Indent(&pretty, payload, "", "  "))
	t.Logf("the example for the document:\n%s", pretty.String())
}

func readKeySet(t *testing.T) attest.KeySet {
	t.Helper()
	return must.Get(attest.ParseKeySet(read(t, goldenKeys)))(t)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.FromSlash(name)))(t)
}
