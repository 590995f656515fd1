package vaulttest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault"
)

// RunStore is the conformance suite of vault.Store. journaled counts the events of this
// package's codes.
func RunStore(t *testing.T, s vault.Store, journaled func() int) {
	t.Helper()
	t.Run("records", func(t *testing.T) { testRecords(t, s, journaled) })
	t.Run("lists", func(t *testing.T) { testLists(t, s) })
	t.Run("boxes", func(t *testing.T) { testBoxes(t, s) })
}

func draft(code event.Code, ref vault.Ref) event.Draft {
	return event.Draft{Code: code, Actor: "user:ann", Subject: ref.String(), Payload: []byte(`{"scope":"` + ref.Scope + `"}`)}
}

func version(n int) vault.Version {
	return vault.Version{Number: n, KEK: "kek-1", Key: []byte{byte(n), 1}, Box: []byte{byte(n), 2, 0, 255}}
}

func same(t *testing.T, s vault.Store, want vault.Record) {
	t.Helper()
	got := must.Get(s.Record(t.Context(), want.Ref))(t)
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(vault.Record{}, "LastUsed", "Last")); d != "" {
		t.Errorf("record (-want +got):\n%s", d)
	}
}

func testRecords(t *testing.T, s vault.Store, journaled func() int) {
	ctx := context.Background()
	ref := vault.Ref{Scope: "user:ann", Key: "smtp"}
	r := vault.Record{Ref: ref, Metadata: []byte(`{"a":1}`), Seal: []byte("seal-1"), Newest: 1, Placed: true, Versions: []vault.Version{version(1)}}
	if _, err := s.Record(ctx, ref); reason.Of(err) != reason.NotFound {
		t.Errorf("a missing record: %v", err)
	}
	must.Do(t, s.PutRecord(ctx, r, nil, draft(event.SecretPut, ref)))
	same(t, s, r)
	for name, old := range map[string][]byte{"as new": nil, "with another seal": []byte("seal-0")} {
		if err := s.PutRecord(ctx, r, old, draft(event.SecretPut, ref)); !errors.Is(err, vault.ErrChanged) {
			t.Errorf("a put %s: %v", name, err)
		}
	}
	// A version that is listed without a box keeps its box; a version that is not listed is
	// dropped.
	for n := 2; n <= 3; n++ {
		r.Seal, r.Newest, r.Placed = fmt.Appendf(nil, "seal-%d", n), n, false
		r.Versions = []vault.Version{{Number: n - 1}, version(n)}
		must.Do(t, s.PutRecord(ctx, r, fmt.Appendf(nil, "seal-%d", n-1), draft(event.SecretPut, ref)))
		r.Versions = []vault.Version{version(n - 1), version(n)}
		same(t, s, r)
	}
	must.Do(t, s.UseRecord(ctx, ref, r.Seal, draft(event.SecretRead, ref)))
	put := draft(event.SecretPut, ref)
	want := vault.LastEvent{Code: put.Code, Payload: put.Payload}
	one, listed := must.Get(s.Record(ctx, ref))(t).Last, must.Get(s.Records(ctx, vault.Query{Limit: 1}))(t)[0].Last
	if d := cmp.Diff([]vault.LastEvent{want, want}, []vault.LastEvent{one, listed}); d != "" {
		t.Errorf("last events (-want +got):\n%s", d)
	}
	must.Do(t, s.Journal(ctx, draft(event.SecretEnded, ref)))
	if one := must.Get(s.Record(ctx, ref))(t); one.Last.Code != event.SecretEnded {
		t.Errorf("an ended secret: %s", one.Last.Code)
	}
	for name, err := range map[string]error{
		"with its first seal": s.UseRecord(ctx, ref, []byte("seal-1"), draft(event.SecretRead, ref)),
		"that does not exist": s.UseRecord(ctx, vault.Ref{Scope: "global", Key: "x"}, r.Seal, draft(event.SecretRead, ref)),
	} {
		if !errors.Is(err, vault.ErrChanged) {
			t.Errorf("the use of a secret %s: %v", name, err)
		}
	}
	must.Do(t, s.RemoveRecord(ctx, ref, draft(event.SecretRemoved, ref)))
	if _, err := s.Record(ctx, ref); reason.Of(err) != reason.NotFound {
		t.Errorf("a removed record: %v", err)
	}
	if err := s.RemoveRecord(ctx, ref, draft(event.SecretRemoved, ref)); reason.Of(err) != reason.NotFound {
		t.Errorf("removing twice: %v", err)
	}
	must.Do(t, s.Journal(ctx, draft(event.SecretUsed, ref)))
	must.Do(t, s.KeepExport(ctx, []string{"kek-1", "kek-2"}, draft(event.RecoveryExported, ref)))
	must.Do(t, s.KeepExport(ctx, []string{"kek-2"}, draft(event.RecoveryExported, ref)))
	if list := must.Get(s.Exports(ctx))(t); len(list) != 2 || list[0].KEK != "kek-1" || list[0].At.IsZero() {
		t.Errorf("exports %v", list)
	}
	if n := journaled(); n != 9 {
		t.Errorf("%d events of 9", n)
	}
}

// fill stores n secrets in two scopes, every second one with hosts.
func fill(t *testing.T, s vault.Store, n int) {
	t.Helper()
	for i := range n {
		ref := vault.Ref{Scope: []string{"agent:bot", "global"}[i%2], Key: fmt.Sprintf("k%02d", i)}
		r := vault.Record{Ref: ref, Metadata: []byte(`{}`), Seal: []byte("s"), Newest: 2, Placed: i%4 < 2, Versions: []vault.Version{version(1), version(2)}}
		must.Do(t, s.PutRecord(t.Context(), r, nil, draft(event.SecretPut, ref)))
	}
}

func testLists(t *testing.T, s vault.Store) {
	ctx := context.Background()
	fill(t, s, 12)
	for name, c := range map[string]struct {
		q    vault.Query
		want []string
	}{
		"first page":  {vault.Query{Limit: 2}, []string{"agent:bot/k00", "agent:bot/k02"}},
		"second page": {vault.Query{Limit: 2, After: vault.Ref{Scope: "agent:bot", Key: "k10"}}, []string{"global/k01", "global/k03"}},
		"one scope":   {vault.Query{Limit: 2, Scope: "global"}, []string{"global/k01", "global/k03"}},
		"placed":      {vault.Query{Limit: 20, Scope: "global", Placed: true}, []string{"global/k01", "global/k05", "global/k09"}},
		"past":        {vault.Query{Limit: 20, After: vault.Ref{Scope: "global", Key: "k11"}}, nil},
		"no such":     {vault.Query{Limit: 20, Scope: "user:ann"}, nil},
	} {
		var got []string
		for _, r := range must.Get(s.Records(ctx, c.q))(t) {
			got = append(got, r.Ref.Name())
			if len(r.Versions) != 1 || r.Versions[0].Number != 2 || r.Versions[0].Box != nil || len(r.Versions[0].Key) == 0 {
				t.Errorf("%s: versions %v", name, r.Versions)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func testBoxes(t *testing.T, s vault.Store) {
	ctx := context.Background()
	if list := must.Get(s.StaleBoxes(ctx, "kek-1", vault.Box{}, 50))(t); len(list) != 0 {
		t.Errorf("%d boxes are stale under the current key", len(list))
	}
	var all []vault.Box
	for after := (vault.Box{}); ; after = all[len(all)-1] {
		list := must.Get(s.StaleBoxes(ctx, "kek-2", after, 7))(t)
		if all = append(all, list...); len(list) < 7 {
			break
		}
	}
	if len(all) != 24 {
		t.Fatalf("%d stale boxes of 24", len(all))
	}
	fresh := make([]vault.Box, 3)
	for i := range fresh {
		fresh[i] = vault.Box{About: all[i].About, KEK: "kek-2", Key: []byte{9, byte(i)}}
	}
	other := all[2]
	other.Key = []byte("replaced meanwhile")
	must.Do(t, s.ReplaceBoxes(ctx, []vault.Box{all[0], all[1], other}, fresh))
	if list := must.Get(s.StaleBoxes(ctx, "kek-2", vault.Box{}, 50))(t); len(list) != 22 {
		t.Errorf("%d stale boxes of 22", len(list))
	}
	ref, n, err := vault.ParseAbout(all[0].About)
	r := must.Get(s.Record(ctx, ref))(t)
	if got := r.Versions[n-1]; err != nil || got.KEK != "kek-2" || string(got.Key) != "\x09\x00" || len(got.Box) == 0 {
		t.Errorf("replaced: %v, %v", got, err)
	}
}
