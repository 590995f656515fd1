package provenance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
)

// elsewhere maps the events of identities and notifications that are not acts on a member's
// credentials to the reason.
var elsewhere = map[event.Code]string{
	event.CACreated:          "it is the gateway's own",
	event.GatewayKeyReplaced: "it is the gateway's own",
	event.VaultKeyPinned:     "it is the gateway's own",
	event.CertificateMade:    "it comes with the act that gives the device, or with a renewal by the device",
	event.CallersRefused:     "nothing was done",
	event.PermissionDenied:   "nothing was done",
	event.OldKeyUsed:         "nothing was done",
	event.PasskeyCounterBack: "nothing was done",
	event.Exported:           "it is a copy of the journal or of approvals",
	event.DeviceRenamed:      "a name is for people",
	event.PairingOpened:      "the device comes with DevicePaired",
	event.PairingTried:       "the device comes with DevicePaired",
	event.PairingProved:      "the device comes with DevicePaired",
	event.PairingEnded:       "no device came",
	event.EvaluatedFor:       "a question, which gives no credential",
	event.AskedFor:           "a question, which gives no credential",
	event.Notified:           "a message to people",
}

// TestEveryActHasARow: each kind has one row, and each event about a member's credentials
// belongs to one row. A new way to act for a member needs a new row.
func TestEveryActHasARow(t *testing.T) {
	t.Parallel()
	rows := map[Kind]int{}
	of := map[event.Code]int{}
	for _, row := range Table {
		rows[row.Kind]++
		if row.Why == "" || len(row.Events) == 0 {
			t.Errorf("the row of %s has no reason, or no event", row.Kind)
		}
		for _, code := range row.Events {
			of[code]++
		}
	}
	kinds := declaredKinds(t)
	for _, kind := range kinds {
		if rows[kind] != 1 {
			t.Errorf("%d rows have the kind %q", rows[kind], kind)
		}
	}
	if len(kinds) != len(Table) || len(kinds) == 0 {
		t.Errorf("%d kinds and %d rows", len(kinds), len(Table))
	}
	for _, code := range event.Codes {
		about := strings.HasPrefix(string(code), "PAL-I") || strings.HasPrefix(string(code), "PAL-N")
		if n := of[code]; about && elsewhere[code] == "" && n != 1 || n > 1 || n > 0 && elsewhere[code] != "" {
			t.Errorf("%d rows have the event %s", n, code)
		}
	}
	if effects["another"] != Controls {
		t.Error("an act without a row gives nothing")
	}
}

// declaredKinds returns the constants of the type Kind in this package.
func declaredKinds(t *testing.T) (kinds []Kind) {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "acts.go", nil, 0))(t)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is {
			return true
		}
		if of, named := spec.Type.(*ast.Ident); named && of.Name == "Kind" {
			for _, value := range spec.Values {
				if text, is := value.(*ast.BasicLit); is {
					kinds = append(kinds, Kind(strings.Trim(text.Value, `"`)))
				}
			}
		}
		return true
	})
	return kinds
}

// account is a chat account of the attacker that is mapped to a member.
type account struct {
	member    access.Principal
	consented bool
}

// simulation is a world in which members also map accounts and create agents for each other.
type simulation struct {
	world

	random   *rand.Rand
	accounts []account
	// agents maps the agents that the attacker created to their owners.
	agents map[access.Principal]access.Principal
	// lax makes every consent count, which is the control.
	lax bool
}

// exercises performs an act of each kind, by a member.
var exercises = map[Kind]func(c *simulation, by access.Principal){
	Made: func(c *simulation, by access.Principal) {
		if owner := c.anyone(); c.random.IntN(3) == 0 {
			agent := access.Agent(fmt.Sprintf("a%d", len(c.history)))
			c.did(Made, agent, by)
			if c.held[by] {
				c.agents[agent] = owner
			}
			return
		}
		if len(c.members) < 8 {
			p := access.User(fmt.Sprintf("m%d", len(c.members)))
			c.members = append(c.members, p)
			c.did(Made, p, by)
			c.held[p] = c.held[by]
		}
	},
	Changed:     func(c *simulation, by access.Principal) { c.handed(Changed, by) },
	DeviceGiven: func(c *simulation, by access.Principal) { c.handed(DeviceGiven, by) },
	Confirmed: func(c *simulation, by access.Principal) {
		p := c.anyone()
		c.did(Confirmed, p, by)
		if !c.held[by] && p != c.attacker {
			c.held[p] = false
		}
	},
	Mapped: func(c *simulation, by access.Principal) {
		if c.held[by] {
			c.accounts = append(c.accounts, account{member: c.anyone()})
			c.did(Mapped, c.accounts[len(c.accounts)-1].member, by)
		}
	},
	// An honest member consents only to their own accounts. Only consents that the attacker gives
	// in the member's name therefore count here.
	Consented: func(c *simulation, by access.Principal) {
		counts := c.lax || len(c.history.Controllers()[by]) == 0
		for i, a := range c.accounts {
			if a.member == by && c.held[by] && counts {
				c.accounts[i].consented = true
				c.did(Consented, by, by)
			}
		}
	},
	LoggedIn:     func(c *simulation, _ access.Principal) { p := c.anyone(); c.did(LoggedIn, p) },
	TokenMade:    func(c *simulation, by access.Principal) { c.did(TokenMade, by, by) },
	ConsoleBegun: func(c *simulation, by access.Principal) { c.did(ConsoleBegun, by, by) },
	KeyAdded:     func(c *simulation, by access.Principal) { c.did(KeyAdded, by, by) },
	Ended:        func(c *simulation, by access.Principal) { c.did(Ended, c.anyone(), by) },
}

func (c *simulation) anyone() access.Principal { return c.members[c.random.IntN(len(c.members))] }

// handed performs an act by which its author could act as the member.
func (c *simulation) handed(kind Kind, by access.Principal) {
	p := c.anyone()
	c.did(kind, p, by)
	c.held[p] = c.held[p] || c.held[by]
}

// ballots returns the members as whom the attacker can vote.
func (c *simulation) ballots() (list []access.Principal) {
	for _, p := range c.members {
		if c.held[p] || slices.Contains(c.accounts, account{p, true}) {
			list = append(list, p)
		}
	}
	return list
}

// countsTwice reports whether the attacker counts as two people, or as one for a call of its
// own. If beside is set, the creator of an agent counts as a requester of its calls.
func (c *simulation) countsTwice(beside bool) bool {
	is, voters := c.history.Controllers().Independence(), c.ballots()
	for _, requester := range c.members {
		if n := is.Count(requester, voters); n > 1 || c.held[requester] && n > 0 {
			return true
		}
	}
	for agent, owner := range c.agents {
		asked := is
		if beside {
			asked = is.Beside(agent)
		}
		if asked.Count(owner, voters) > 0 {
			return true
		}
	}
	return false
}

// newSimulation performs random acts of all kinds of the table.
func newSimulation(t *testing.T, random *rand.Rand, lax bool) *simulation {
	c := &simulation{world: world{held: map[access.Principal]bool{}}, random: random, agents: map[access.Principal]access.Principal{}, lax: lax}
	for i := range 2 + random.IntN(2) {
		p := access.User(fmt.Sprintf("root%d", i))
		c.members = append(c.members, p)
		c.did(Made, p)
	}
	c.attacker = c.anyone()
	c.held[c.attacker] = true
	for range 8 + random.IntN(20) {
		kind := Table[random.IntN(len(Table))].Kind
		if random.IntN(2) == 0 { // the relevant ones together
			kind = []Kind{DeviceGiven, Confirmed, Mapped, Consented}[random.IntN(4)]
		}
		exercise := exercises[kind]
		if exercise == nil {
			t.Fatalf("no exercise does %q", kind)
		}
		exercise(c, c.anyone())
	}
	return c
}

// TestNobodyVotesTwice: with any sequence of acts of the table, no member casts two votes, or
// votes on their own request, through anything that they created or control. Controls: if every
// consent counted, or if the creator of an agent did not count as a requester of its calls,
// this would be possible.
func TestNobodyVotesTwice(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(31, 4))
	byAccount, agents := 0, 0
	for range 20_000 {
		c := newSimulation(t, random, false)
		if c.countsTwice(true) {
			t.Fatalf("%s votes as %v with the accounts %v and the agents %v:\n%v", c.attacker, c.ballots(), c.accounts, c.agents, c.history)
		}
		if slices.Contains(c.accounts, account{c.attacker, true}) {
			byAccount++
		}
		if c.countsTwice(false) {
			agents++
		}
	}
	if byAccount == 0 || agents < 20 {
		t.Errorf("%d accounts vote, and %d of 20,000 histories would give a vote on calls of an agent", byAccount, agents)
	}
	control := 0
	for range 20_000 {
		if newSimulation(t, random, true).countsTwice(true) {
			control++
		}
	}
	if control < 20 {
		t.Errorf("if every consent counted, only %d of 20,000 histories would give a second vote", control)
	}
}
