package resource_test

import (
	"testing"

	"palyra/internal/identity/login/resource"
)

// TestSameIssuer: two URLs are the same issuer only if they are equivalent under RFC 3986,
// section 6.2.3.
func TestSameIssuer(t *testing.T) {
	t.Parallel()
	for _, equal := range [][]string{
		{"https://as.example", "https://as.example/", "https://as.example:/", "https://as.example:443", "https://as.example:443/"},
		{"http://127.0.0.1", "http://127.0.0.1:80/"},
		{"https://as.example/t", "https://as.example:443/t"},
		{"https://[2001:db8::1]", "https://[2001:db8::1]:443/"},
		{"https://as.example:8443", "https://as.example:8443/"},
		{"https://as.example?a", "https://as.example/?a"},
	} {
		for _, a := range equal {
			for _, b := range equal {
				if !resource.SameIssuer(a, b) {
					t.Errorf("%s and %s are told apart", a, b)
				}
			}
		}
	}
	distinct := []string{
		"https://as.example/t", "https://as.example/t/", "https://as.example/T", "https://as.example/%74", "https://as.example/./t", "https://as.example//t", "https://as.example//",
		"https://as.example", "http://as.example", "http://as.example:443", "https://as.example:80", "https://as.example:4433", "https://as.example:0443", "https://as.example.", "https://as.example?", "https://as.example#",
		"https://u@as.example", "https://u@as.example:443", "https://as.example:443:443", "https://as.example::443", "as.example", "as.example:443", "ftp://as.example", "ftp://as.example/", "", "https://", "https://[::443]", "https://[::]",
	}
	for i, a := range distinct {
		for _, b := range distinct[:i] {
			if resource.SameIssuer(a, b) {
				t.Errorf("%s and %s are the same", a, b)
			}
		}
	}
}
