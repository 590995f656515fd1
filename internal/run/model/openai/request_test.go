package openai

import "testing"

func TestNewerRequestFormat(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]bool{
		home: true, "https://eu.api.openai.com/v1": true, "https://x.openai.azure.com/openai/v1": true,
		"http://127.0.0.1:8080/v1": false, "https://api.openai.com.evil.test/v1": false, "://": false,
	} {
		if got := newer(base); got != want {
			t.Errorf("%s: %v", base, got)
		}
	}
}
