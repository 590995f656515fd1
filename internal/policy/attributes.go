package policy

import (
	"iter"
	"math/bits"

	"github.com/cedar-policy/cedar-go/types"
)

// attributes is a set of attributes of a call's context. Building a context is
// most of the work of a decision, so only what the candidates read is built.
type attributes uint64

// The attributes of vocabulary.cedarschema's CallContext and CommitContext, and
// args.
const (
	attrArgs attributes = 1 << iota
	attrArgsRest
	attrApproval
	attrDeviceID
	attrSessionID
	attrRunID
	attrToolName
	attrSkillID
	attrSurface
	attrPaired
	attrPresent
	attrCapabilities
	attrNow
	attrChannel
	attrSkill
	attrWorkspace
	attrPath
	attrHost
	attrDomain
	attrMethod
	attrPort
	attrProtected
	attrRisk
	attrSandbox
	attrEgress
	attrExec
	attrSession
	attrWorkspaceMode
	attrChanges
	attrExitCode
	attrPathFolded
	attrHardLinks
	attrEnd
	allAttributes = attrEnd - 1
)

const (
	// callAttributes are those of CallContext.
	callAttributes = allAttributes &^ (attrChanges | attrExitCode)
	// commitAttributes are those of CommitContext.
	commitAttributes = attrApproval | attrDeviceID | attrSessionID | attrRunID | attrToolName | attrSurface | attrPaired |
		attrPresent | attrCapabilities | attrNow | attrSandbox | attrEgress | attrExec | attrSession | attrChanges | attrExitCode
)

func (a attributes) has(one attributes) bool { return a&one != 0 }

// index is the place of one attribute in the table.
func (a attributes) index() int { return bits.TrailingZeros64(uint64(a)) }

func (a attributes) size() int { return bits.OnesCount64(uint64(a)) }

// all yields the attributes of the set with their names.
func (a attributes) all() iter.Seq2[attributes, types.String] {
	return func(yield func(attributes, types.String) bool) {
		for rest := uint64(a); rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros64(rest)
			if !yield(1<<i, contextFacts[i].name) {
				return
			}
		}
	}
}

// attributeOfName returns the attribute of a name. One that the vocabulary
// does not have, which no policy that loads can name, is none.
func attributeOfName(name types.String) attributes {
	for i := range contextFacts {
		if contextFacts[i].name == name {
			return 1 << i
		}
	}
	return 0
}

// contextReads returns what the policy's conditions read of the context: all
// of it where one reads it as a whole.
func (c *compiled) contextReads() attributes {
	var out attributes
	for _, cond := range c.conditions() {
		cond.body.walk(func(t *tree) bool {
			if has, ok := t.node.(nodeHas); ok && isContext(t.kids[0]) {
				out |= attributeOfName(has.Value)
				return false
			}
			switch chain := t.chain(); {
			case len(chain) == 0 || chain[0] != "context":
				return true
			case len(chain) == 1:
				out = allAttributes
			default:
				out |= attributeOfName(types.String(chain[1]))
			}
			return false
		})
	}
	return out
}

func isContext(t *tree) bool {
	v, ok := t.node.(nodeVariable)
	return ok && v.Name == "context"
}

// reads joins what candidates read of the context.
func (c candidates) reads() attributes {
	var out attributes
	for _, p := range c {
		out |= p.reads
	}
	return out
}
