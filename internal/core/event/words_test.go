package event

import "testing"

// TestEveryEventHasAWord holds the words against the catalog.
func TestEveryEventHasAWord(t *testing.T) {
	t.Parallel()
	for _, code := range Codes {
		if code.Words() == "" {
			t.Errorf("%s has no word", code)
		}
	}
	if len(words) != len(Codes) {
		t.Errorf("%d words for %d codes", len(words), len(Codes))
	}
	if got := Code("PAL-X000").Words(); got != "" {
		t.Errorf("an unknown code has the word %q", got)
	}
}
