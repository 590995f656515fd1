package provenance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"palyra/internal/core/access"
)

func made(member string, by ...string) Act {
	return Act{Member: access.User(member), Kind: Made, By: users(by...)}
}
func changed(member string, by ...string) Act {
	return Act{Member: access.User(member), Kind: Changed, By: users(by...)}
}
func confirmed(member string, by ...string) Act {
	return Act{Member: access.User(member), Kind: Confirmed, By: users(by...)}
}

func users(names ...string) []access.Principal {
	var list []access.Principal
	for _, n := range names {
		list = append(list, access.User(n))
	}
	return list
}

func TestCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		history   History
		requester string
		voters    []string
		want      int
	}{
		"two that the host made":               {History{made("ann"), made("bob"), made("cyd")}, "ann", []string{"bob", "cyd"}, 2},
		"the requester":                        {History{made("ann"), made("bob")}, "ann", []string{"ann", "bob"}, 1},
		"a repeated voter and another":         {History{made("ann"), made("bob"), made("cyd")}, "ann", append(slices.Repeat([]string{"bob"}, 30), "cyd"), 2},
		"the same voter twice":                 {History{made("ann"), made("bob")}, "ann", []string{"bob", "bob"}, 1},
		"made by the requester":                {History{made("ann"), made("bob", "ann")}, "ann", []string{"bob"}, 0},
		"the maker of the requester":           {History{made("ann"), made("bob", "ann")}, "bob", []string{"ann"}, 0},
		"changed by the requester":             {History{made("ann"), made("bob"), changed("bob", "ann")}, "ann", []string{"bob"}, 0},
		"through one that was made":            {History{made("ann"), made("bob", "ann"), made("cyd", "bob")}, "ann", []string{"cyd"}, 0},
		"both made by a third":                 {History{made("ann"), made("bob", "ann"), made("cyd", "ann")}, "bob", []string{"cyd"}, 0},
		"two voters of one maker count once":   {History{made("ann"), made("dan"), made("bob", "ann"), made("cyd", "ann")}, "dan", []string{"bob", "cyd"}, 1},
		"a maker and the one made count once":  {History{made("ann"), made("dan"), made("bob", "ann")}, "dan", []string{"ann", "bob"}, 1},
		"of two makers":                        {History{made("ann"), made("eve"), made("dan"), made("bob", "ann"), made("cyd", "eve")}, "dan", []string{"bob", "cyd"}, 2},
		"confirmed by the host":                {History{made("ann"), made("bob", "ann"), confirmed("bob")}, "ann", []string{"bob"}, 1},
		"confirmed by another member":          {History{made("ann"), made("dan"), made("bob", "ann"), confirmed("bob", "dan")}, "ann", []string{"bob"}, 1},
		"confirmed by the maker":               {History{made("ann"), made("bob", "ann"), confirmed("bob", "ann")}, "ann", []string{"bob"}, 0},
		"confirmed by another of the maker":    {History{made("ann"), made("bob", "ann"), made("cyd", "ann"), confirmed("bob", "cyd")}, "ann", []string{"bob"}, 0},
		"changed again after the confirmation": {History{made("ann"), made("dan"), made("bob", "ann"), confirmed("bob", "dan"), changed("bob", "ann")}, "ann", []string{"bob"}, 0},
		"the confirmer is freed first": {
			History{made("ann"), made("dan"), made("bob", "ann"), made("cyd", "ann"), confirmed("cyd", "dan"), confirmed("bob", "cyd")},
			"ann", []string{"bob", "cyd"}, 2,
		},
		"the confirmer is freed later": {
			History{made("ann"), made("dan"), made("bob", "ann"), made("cyd", "ann"), confirmed("bob", "cyd"), confirmed("cyd", "dan")},
			"ann", []string{"bob", "cyd"}, 1,
		},
		"each confirms the other": {
			History{made("ann"), made("bob", "ann"), made("cyd", "bob"), confirmed("bob", "cyd"), confirmed("cyd", "bob")},
			"ann", []string{"bob", "cyd"}, 0,
		},
		"made by one that was freed later": {
			History{made("ann"), made("dan"), made("bob", "ann"), made("cyd", "bob"), confirmed("bob", "dan")},
			"ann", []string{"bob", "cyd"}, 1,
		},
		"two who changed each other": {
			History{made("ann"), made("bob"), made("dan"), changed("ann", "bob"), changed("bob", "ann")}, "dan", []string{"ann", "bob"}, 1,
		},
		"made on the host, where two hold its device": {
			History{made("ann"), made("eve"), made("dan"), made("bob", "ann", "eve")}, "dan", []string{"ann", "bob"}, 1,
		},
		"confirmed by the holder of the host's device": {
			History{made("ann"), made("eve"), made("bob", "ann"), confirmed("bob", "ann", "eve")}, "ann", []string{"bob"}, 0,
		},
		"a maker who confirms does not free itself": {History{made("ann"), made("bob", "ann"), confirmed("ann", "bob")}, "ann", []string{"bob"}, 0},
		"unknown members": {nil, "ann", []string{"bob", "cyd"}, 2},
		"the largest choice is found": {
			History{made("ann"), made("bob"), made("hub"), made("dan"), changed("hub", "ann"), changed("hub", "bob")},
			"dan", []string{"hub", "ann", "bob"}, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.history.Controllers().Independence().Count(access.User(c.requester), users(c.voters...)); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// TestCountWithSeveralRequesters: if several members request the same, a vote counts only if it is
// independent of each of them.
func TestCountWithSeveralRequesters(t *testing.T) {
	t.Parallel()
	h := History{made("ann"), made("bob"), made("cyd", "ann"), made("dan", "bob"), made("eve"), made("fay")}
	voters := users("cyd", "dan", "eve", "fay")
	is := h.Controllers().Independence()
	for who, want := range map[string]int{"ann": 3, "bob": 3} {
		if got := is.Count(access.User(who), voters); got != want {
			t.Errorf("of %s alone %d, want %d", who, got, want)
		}
	}
	if got := is.Beside(access.User("bob")).Count(access.User("ann"), voters); got != 2 {
		t.Errorf("of both %d, want 2", got)
	}
}

// A team that one owner created can work once the host confirmed its members; before that, it
// counts as one person.
func TestTeams(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3, 50} {
		h := History{made("owner")}
		var rest []access.Principal
		for i := range size - 1 {
			name := fmt.Sprintf("member-%d", i)
			rest, h = append(rest, access.User(name)), append(h, made(name, "owner"))
		}
		if got := h.Controllers().Independence().Count(access.User("owner"), rest); got != 0 {
			t.Errorf("%d members: %d independent of their maker", size, got)
		}
		if got := h.confirmAll().Controllers().Independence().Count(access.User("owner"), rest); got != min(size-1, maxVoters) {
			t.Errorf("%d members, confirmed: %d", size, got)
		}
	}
}

// confirmAll adds the host's confirmation of every member.
func (h History) confirmAll() History {
	all := slices.Clone(h)
	for _, p := range h.principals() {
		all = append(all, Act{Member: p, Kind: Confirmed})
	}
	return all
}

// world is a gateway on which members act; one of them acts in the name of every member that
// they control.
type world struct {
	members  []access.Principal
	history  History
	attacker access.Principal
	// held contains the members whose key the attacker has. The attacker created them or gave them
	// a device or a role, directly or through another held member, and no other member has
	// confirmed them since.
	held map[access.Principal]bool
}

// play creates a random history of up to 8 members and tracks, act by act, whose keys one
// attacker has.
func play(random *rand.Rand) world {
	w := world{held: map[access.Principal]bool{}}
	roots := 1 + random.IntN(3)
	for i := range roots {
		p := access.User(fmt.Sprintf("root%d", i))
		w.members = append(w.members, p)
		w.did(Made, p)
	}
	w.attacker = w.members[random.IntN(roots)]
	w.held[w.attacker] = true
	for range 4 + random.IntN(14) {
		w.act(random, w.members[random.IntN(len(w.members))])
	}
	return w
}

func (w *world) act(random *rand.Rand, by access.Principal) {
	switch kind := random.IntN(3); {
	case kind == 0 && len(w.members) < 8:
		p := access.User(fmt.Sprintf("m%d", len(w.members)))
		w.members = append(w.members, p)
		w.did(Made, p, by)
		w.held[p] = w.held[by]
	default:
		p := w.members[random.IntN(len(w.members))]
		if kind == 1 {
			w.did(Changed, p, by)
			w.held[p] = w.held[p] || w.held[by]
			return
		}
		// An honest member confirms only their own members, and the attacker then loses the key.
		w.did(Confirmed, p, by)
		if !w.held[by] && p != w.attacker {
			w.held[p] = false
		}
	}
}

func (w *world) did(kind Kind, member access.Principal, by ...access.Principal) {
	w.history = append(w.history, Act{Member: member, Kind: kind, By: by})
}

// The holder of one credential, with all members that they created, never counts as two people,
// neither for their own calls nor for others'. This holds for any sequence of creations,
// changes and confirmations.
func TestOneCredentialIsNeverTwo(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(13, 1))
	sizes, counted := map[int]int{}, 0
	for range 20_000 {
		w := play(random)
		is := w.history.Controllers().Independence()
		held := slices.SortedFunc(maps.Keys(w.held), compare)
		held = slices.DeleteFunc(held, func(p access.Principal) bool { return !w.held[p] })
		sizes[len(held)]++
		for _, requester := range w.members {
			n := is.Count(requester, held)
			counted += n
			if n > 1 || w.held[requester] && n > 0 {
				t.Fatalf("%s holds %v and counts as %d for a call of %s:\n%v", w.attacker, held, n, requester, w.history)
			}
		}
	}
	if sizes[1] == 0 || sizes[4] == 0 || counted == 0 {
		t.Errorf("the histories are all alike: %v, %d", sizes, counted)
	}
}

// A further voter never decreases the count, and a further act of another member on a member
// never increases it.
func TestCountIsMonotone(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(13, 2))
	for range 2_000 {
		w := play(random)
		requester, is := w.members[0], w.history.Controllers().Independence()
		before := 0
		for n := range w.members {
			after := is.Count(requester, w.members[:n+1])
			if after < before {
				t.Fatalf("%d voters count %d, %d count %d: %v", n, before, n+1, after, w.history)
			}
			before = after
		}
		p := w.members[random.IntN(len(w.members))]
		w.did(Changed, p, w.attacker)
		if after := w.history.Controllers().Independence().Count(requester, w.members); after > before {
			t.Fatalf("a change of %s by %s made %d of %d: %v", p, w.attacker, after, before, w.history)
		}
	}
}

// The host's confirmation of all members makes all of them independent.
func TestHostConfirms(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(13, 3))
	for range 500 {
		w := play(random)
		if got := w.history.confirmAll().Controllers().Independence().Count(w.members[0], w.members); got != len(w.members)-1 {
			t.Fatalf("%d of %d: %v", got, len(w.members), w.history)
		}
	}
}
