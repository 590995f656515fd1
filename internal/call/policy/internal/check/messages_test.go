package check

import (
	"fmt"
	"testing"
)

// TestVerdictsAreKept: a stored verdict is not computed again, up to the number of stored
// verdicts. Verdicts that are no longer requested are dropped.
func TestVerdictsAreKept(t *testing.T) {
	t.Parallel()
	m := verdictMemory{now: map[verdictKey][]message{}}
	judged := 0
	ask := func(text string) []message {
		return m.of(verdictKeyOf("sha256:s", text), func() []message {
			judged++
			return []message{{text: text}}
		})
	}
	for i := range 3 * maxVerdicts {
		ask(fmt.Sprint(i))
		if got := ask("often"); len(got) != 1 || got[0].text != "often" {
			t.Fatalf("the verdict of another: %v", got)
		}
	}
	if judged != 3*maxVerdicts+1 {
		t.Errorf("judged %d times", judged)
	}
	if len(m.now) > maxVerdicts || len(m.before) > maxVerdicts {
		t.Errorf("%d and %d are kept", len(m.now), len(m.before))
	}
	if ask("0"); judged != 3*maxVerdicts+2 {
		t.Error("an old message that was requested once is still cached")
	}
}
